"""Findings by what they are about, and the table `finding`: by the words by which a stream raises alarms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from .finding import LEVELS, ROWS, Finding, FindingKind, Row, many
from .sentences import KINDS

FINDINGS_MAX = 10_000
"""Most rows of the table, the worst first; a further one says how many more there are."""
EVIDENCE_MAX = 3
"""Rows of the summary that are given with a finding."""
COLUMNS = {
    "level": "STRING",
    "finding": "STRING",
    "router": "STRING",
    "peer": "STRING",
    "count": "BIGINT",
    "seq": "BIGINT",
    "file": "STRING",
    "id": "STRING",
    "text": "STRING",
    "remedy": "STRING",
    "evidence": "STRING",
}
"""The columns of `finding`, with their types in SQL. `level`, `finding`, `router`, `peer`, `text`, `remedy` and
`evidence` are those of the table `alarm`: `router` and `peer` are "" where a finding is about none, and `evidence` is
JSON, up to `EVIDENCE_MAX` rows of the summary. `count`: how many messages, deliveries, lines, files or changes it is
about, as its text says; null where it counts nothing. `seq`, `file`, `id`: the first event, file and message id in the
evidence, null where it has none."""


@dataclass(frozen=True, slots=True)
class AboutOne:
    """A finding, the word that names its kind, the router and peer that it is about, "" where it is about none, and
    the rows of the summary that show it. `count`: as in the table."""

    finding: Finding
    word: str
    router: str
    peer: str
    count: int | None
    evidence: tuple[Mapping[str, Any], ...]


def each_finding(summary: Row, kinds: Iterable[FindingKind] = KINDS) -> Iterator[AboutOne]:
    """Yield the findings of these kinds, all of them, by kind; not the sentence that all is well."""
    for kind in kinds:
        examples = _examples(summary, kind)
        beside = {table: _by_router(summary[table]) for table in kind.beside}
        for rows in kind.groups(summary[kind.table]) if kind.table else [[summary]]:
            own = {table: by_router.get(rows[0]["router"], []) for table, by_router in beside.items()}
            told = partial(_told, {**summary, **own}, kind)
            counts = _counts(kind, rows) if len(kind.counts) > 1 else []
            for at, finding in enumerate(told(rows)):
                shown = _shown_by(finding, rows, told)
                count = counts[at] if counts else _count(kind, shown)
                yield _about(kind, finding, shown, count, examples)


def finding_rows(summary: Row) -> list[tuple[Any, ...]]:
    """Return the rows of the table `finding`, the values of `COLUMNS`, the worst first."""
    found = sorted(each_finding(summary), key=lambda one: LEVELS.index(one.finding["level"]))
    rows = [_row(one) for one in found[:FINDINGS_MAX]]
    if rest := found[FINDINGS_MAX:]:
        said = {
            "level": rest[0].finding["level"],
            "text": f"There are {many(len(rest), 'further finding')}.",
            "remedy": "The tables of the summary have what they are made of.",
        }
        rows.append(_row(AboutOne(said, "more", "", "", len(rest), ())))
    return rows


def _by_router(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["router"], []).append(row)
    return found


def _told(summary: Row, kind: FindingKind, rows: list[Row]) -> list[Finding]:
    """Return what the rule yields of these rows alone."""
    return list(kind.rule({**summary, kind.table: rows} if kind.table else summary))


def _row(one: AboutOne) -> tuple[Any, ...]:
    values = {
        **one.finding,
        "finding": one.word,
        "router": one.router,
        "peer": one.peer,
        "count": one.count,
        "seq": _first(one.evidence, "seq", "first_seq"),
        "file": _first(one.evidence, "file", "path"),
        "id": _first(one.evidence, "id"),
        "evidence": json.dumps(one.evidence, sort_keys=True),
    }
    return tuple(values[name] for name in COLUMNS)


def _first(rows: Iterable[Row], *names: str) -> Any:
    """Return the value of the first of these columns that a row has, None if no row has any."""
    return next((row[name] for row in rows for name in names if row.get(name) is not None), None)


def _shown_by(finding: Finding, rows: list[Row], told: Callable[[list[Row]], list[Finding]]) -> list[Row]:
    """Return the rows of a group that show this finding: those of which alone the rule yields it, else one with the
    same remedy, else all."""
    if len(rows) == 1:
        return rows
    alone = [(row, told([row])) for row in rows]
    for name in ("text", "remedy"):
        if own := [row for row, said in alone if any(one[name] == finding[name] for one in said)]:
            return own
    return rows


def _counts(kind: FindingKind, rows: list[Row]) -> list[int]:
    """Return what the rule counts in a row, one number for each finding of it."""
    return [number for row in rows for name in kind.counts if (number := row[name])]


def _count(kind: FindingKind, rows: list[Row]) -> int | None:
    """Return what the finding of these rows counts; None if it counts nothing, or the row does not say."""
    if not kind.counts:
        return None
    [name] = kind.counts
    counts: list[int | None] = [1 if name == ROWS else row[name] for row in rows]
    return sum(count or 0 for count in counts) if kind.is_sum or name == ROWS else counts[0]


def _examples(summary: Row, kind: FindingKind) -> dict[tuple[str, str], list[Row]]:
    """Return the first rows of the kind's table of examples, by router and peer."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in summary[kind.examples] if kind.examples else ():
        own = found.setdefault((row["router"], row[kind.peer] if kind.peer else ""), [])
        if len(own) < EVIDENCE_MAX:
            own.append(row)
    return found


def _about(
    kind: FindingKind, finding: Finding, rows: list[Row], count: int | None, examples: dict[tuple[str, str], list[Row]]
) -> AboutOne:
    if not kind.table:
        return AboutOne(finding, kind.word, "", "", count, ())
    first = rows[0]
    router, peer = (str((first[name] if name else "") or "") for name in (kind.router, kind.peer))
    word = f"{kind.word}:{first[kind.detail]}" if kind.detail else kind.word
    shown = [*rows, *examples.get((router, peer), ())][:EVIDENCE_MAX]
    return AboutOne(finding, word, router, peer, count, tuple(map(_without_lists, shown)))


def _without_lists(row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, list | tuple | dict)}
