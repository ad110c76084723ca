"""The files that a stream has named so far: which of them count, and what the state notes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from spark_analytics.batch import bronze, silver
from spark_analytics.batch.silver import Part
from spark_analytics.batch.span import Span
from spark_analytics.judgement.evidence import NO_LOG, judge
from spark_analytics.judgement.footer import Verify, decode_line, read_footer
from spark_analytics.judgement.log_files import FileFacts, Problem
from spark_analytics.judgement.schema import role
from spark_analytics.stream.increments import Lines
from spark_analytics.stream.ledger import Ledger
from spark_analytics.stream.state import State

BYTES = "latin-1"
"""An encoding with one character for each byte."""


class NamedFiles:
    """The files that a stream of these directories has named so far, and their evidence together. `ledger`: what the
    state notes of those before; `found`: the names of new ones, with their URIs."""

    def __init__(
        self, spark: SparkSession, paths: Sequence[str], ledger: Ledger, found: Mapping[str, str], verify: Verify
    ) -> None:
        known = {row["path"]: row for row in ledger["facts"]}
        self.new = {name: uri for name, uri in found.items() if name not in known and role(name) is not None}
        self.uris = {path: row["uri"] for path, row in known.items()} | self.new
        self.facts = {path: _facts(row) for path, row in known.items()}
        changing = {path: uri for path, uri in self.uris.items() if path in self.new or role(path) != "segment"}
        changed = bronze.facts_of(spark, changing)
        self.facts |= {fact.path: fact for fact in changed}
        self.size = sum(fact.size for fact in self.facts.values())
        self.listed = [
            Problem(path, 0, NO_LOG)
            for path in paths
            if not any(name.startswith(bronze.name_of(path).rstrip("/") + "/") for name in self.facts)
        ]
        self._spark, self._verify = spark, verify
        self._known = {row["footer"] for row in ledger["authentic"]}
        self._doubted_before = {row["path"] for row in ledger["doubted"]}
        self._doubted: set[str] = set()
        self.counted = {(row["router"], row["first_seq"], row["last_seq"], row["digest"]) for row in ledger["counted"]}
        self.doubt({*self._doubted_before, *(fact.path for fact in changed if fact.is_odd)})

    def doubt(self, paths: Iterable[str]) -> None:
        """Judge the files again, with the lines of these and of those doubted before counted as unreadable."""
        self._doubted = self._doubted | {*paths}
        self.evidence = judge(
            self.facts.values(),
            lambda name: [bronze.content_of(self._spark, self.uris[name])],
            listed=self.listed,
            known=self._known,
            doubted=self._doubted,
            verify=self._verify,
        )
        statuses = {file.path: file.status for file in self.evidence.files}
        parts = silver.parts(self.evidence.files)
        self.good = {(*part[1:], self.facts[part.file].digest): part for part in parts if statuses[part.file] == "good"}
        self._tails = [part for part in parts if statuses[part.file] == "tail"]

    def split(self, base: State, span: Span) -> tuple[list[Part], list[Part]]:
        """Return the segments to be counted for good, and the parts that may still change: tails, and segments later
        than now."""
        counted = self.counted if base.batch >= 0 else set()
        left = [part for key, part in sorted(self.good.items()) if key not in counted]
        ahead = [part for part in left if read_footer(decode_line(self.facts[part.file].last)).max_t > span.as_of_ns]
        return [part for part in left if part not in ahead], [*ahead, *self._tails]

    def heads(self) -> dict[str, tuple[int, int]]:
        """Return of each router the last event that a segment here covers, and the time of the newest event in it."""
        found: dict[str, Part] = {}
        for part in self.good.values():
            if part.router not in found or part.last_seq > found[part.router].last_seq:
                found[part.router] = part
        ends = {router: read_footer(decode_line(self.facts[part.file].last)).max_t for router, part in found.items()}
        return {router: (part.last_seq, ends[router]) for router, part in found.items()}

    def lines(self, parts: Sequence[Part]) -> Lines:
        return Lines(parts, self.uris, sum(self.facts[name].size for name in {part.file for part in parts}))

    def notes(self, steady: Sequence[Part], *, is_fresh: bool) -> dict[str, list[dict[str, Any]]]:
        """Return the rows about these files for the state: all of them, or the new ones."""
        facts = [fact for name, fact in sorted(self.facts.items()) if is_fresh or name in self.new]
        authentic = self.evidence.authentic - (set() if is_fresh else self._known)
        names = ("router", "first_seq", "last_seq", "digest")
        return {
            "facts": [_noted(fact, self.uris[fact.path]) for fact in facts],
            "doubted": [{"path": p} for p in sorted(self._doubted - (set() if is_fresh else self._doubted_before))],
            "authentic": [{"footer": name} for name in sorted(authentic)],
            "counted": [dict(zip(names, (*part[1:], self.facts[part.file].digest), strict=True)) for part in steady],
        }


def _noted(fact: FileFacts, uri: str) -> dict[str, Any]:
    return {**fact._asdict(), "uri": uri, "head": fact.head.decode(BYTES), "last": fact.last.decode(BYTES)}


def _facts(row: Mapping[str, Any]) -> FileFacts:
    head, last = (row[name].encode(BYTES) for name in ("head", "last"))
    return FileFacts(row["path"], row["size"], head, last, row["digest"], row["error"])
