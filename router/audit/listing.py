"""List the files that an audit reads: the event logs below the given paths, and the problems with those paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from router.audit.filing import Filing
from router.disk.room import DATA
from router.settings.keyring import NODE
from spark_analytics.judgement.comparison import SUMMARY_BYTES_MAX, Head, NotASummary, heads_in
from spark_analytics.judgement.evidence import NO_LOG, Evidence
from spark_analytics.judgement.log_files import DEAD_LINK, UNLISTED, Problem
from spark_analytics.judgement.schema import role

FILES_MAX = 1_000_000
_LOGS_OWN = ("events-", "tail-")
NO_KEY = "is a node's store without the key of its home: its newest events are not read; put keys/node.key beside it"
LOOP = "is a link to a directory above, which is not searched: name that directory itself"


class NothingToRead(Exception):
    """Raised if none of the paths holds an event log; the text lists the paths."""


class Listing(Struct):
    """The input files of an audit. `paths`: log files, each once, in order. `problems`: directories without a log, or
    that cannot be listed. `names`: names to report instead of temporary paths that are gone after the audit.
    `key_names`: what operators call keys (in hex); `elsewhere`: heads of logs that other audits judged; `filing`: what
    the audit says of its making."""

    paths: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    key_names: dict[str, str] = field(default_factory=dict)
    elsewhere: tuple[Head, ...] = ()
    filing: Filing = Filing()

    def named(self, evidence: Evidence) -> Evidence:
        """Return the evidence with the heads of other audits, and with these names instead of temporary paths, for
        reporting only: its files cannot be read by them."""
        return replace(
            evidence,
            elsewhere=self.elsewhere,
            **{name: self.told(getattr(evidence, name)) for name in ("files", "holes", "problems", "logs", "limits")},
        )

    def told(self, said: Any) -> Any:
        """Replace temporary paths by their names in a string, or in all strings of a tuple."""
        if not self.names:
            return said
        if isinstance(said, str):
            for path, name in self.names.items():
                said = said.replace(path, name)
        elif isinstance(said, tuple):
            values = [self.told(value) for value in said]
            return said._make(values) if hasattr(said, "_make") else tuple(values)
        return said


def list_logs(paths: Iterable[Path]) -> Listing:
    """List the log files. Directories are searched recursively, also those that links lead to; a file that is named is
    taken whatever its name is.

    Two paths to one file count once. Raise `NothingToRead` if there is no file, or more than `FILES_MAX`.
    """
    found = Listing()
    seen: set[str] = set()
    for path in paths:
        some = _in_directory(path, found) if path.is_dir() else [str(path)]
        for one in some:
            real = os.path.realpath(one)
            if real not in seen:
                seen.add(real)
                found.paths.append(one)
        if len(found.paths) > FILES_MAX:
            raise NothingToRead(f"there are more than {FILES_MAX} log files below {path}; audit them in parts")
    if not found.paths:
        said = "; ".join(str(problem) for problem in found.problems)
        raise NothingToRead(f"{said}; name the log directory of a node, or the home of one")
    found.paths.sort()
    return found


def _in_directory(top: Path, found: Listing) -> list[str]:
    before = len(found.problems)
    names, like = list[str](), list[str]()
    for directory, folders, files in directories(top, found.problems.append):
        names += [_join(directory, name) for name in files if role(name) is not None]
        odd = [_join(directory, name) for name in folders if role(name) is not None]
        found.problems += [Problem(path, 0, "is a directory, and has the name of a log file") for path in odd]
        like += [_join(directory, name) for name in files if name.startswith(_LOGS_OWN) and role(name) is None]
        if os.path.basename(directory) == "store" and DATA in files and not _holds_node(os.path.dirname(directory)):  # noqa: PTH119, PTH120
            found.problems.append(Problem(directory, 0, NO_KEY))
        found.problems += [Problem(path, 0, DEAD_LINK) for path in _dead_links(directory, files)]
    if not names and len(found.problems) == before:
        found.problems.append(Problem(str(top), 0, NO_LOG))
    found.problems += [Problem(path, 0, "is not read: its name is not that of a log file") for path in sorted(like)]
    return names


def directories(
    top: Path, problem: Callable[[Problem], None] = lambda problem: None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each directory from `top` down once, with the names of its folders and of its other entries.

    Links to directories are followed, except to one above `top`, which would lead to everything; `problem` is called
    with those, and with directories that cannot be listed."""
    above = f"{os.path.realpath(top)}/"
    entered: set[str] = set()

    def is_new(path: str) -> bool:
        real = os.path.realpath(path)
        is_loop = os.path.islink(path) and f"{above}/".startswith(f"{real.rstrip('/')}/")  # noqa: PTH114
        if is_loop:
            problem(Problem(path, 0, LOOP))
        if is_loop or real in entered:
            return False
        entered.add(real)
        return True

    def failed(error: OSError) -> None:
        problem(Problem(str(error.filename), 0, f"{UNLISTED}: {error.strerror}"))

    for directory, folders, files in os.walk(top, onerror=failed, followlinks=True):
        folders.sort(key=lambda name: (os.path.islink(_join(directory, name)), name))  # noqa: PTH114
        folders[:] = [name for name in folders if is_new(_join(directory, name))]
        yield directory, folders, files


def _dead_links(directory: str, files: Iterable[str]) -> Iterator[str]:
    """Yield the links among these entries that lead nowhere and may have led to a log directory."""
    for name in files:
        path = _join(directory, name)
        if role(name) is None and not name.startswith(".") and os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
            yield path


def homes_below(top: Path) -> Iterator[Path]:
    """Yield the homes of nodes below a directory."""
    for directory, folders, _ in directories(top):
        if "keys" in folders and _holds_node(directory):
            yield Path(directory)


def _holds_node(directory: str) -> bool:
    return os.path.exists(_join(directory, f"keys/{NODE}.key"))  # noqa: PTH110


def _join(directory: str, name: str) -> str:
    return os.path.join(directory, name)  # noqa: PTH118 - names need not be UTF-8


def read_heads(path: Path) -> tuple[Head, ...]:
    """Return the heads of logs in the summary of another audit; Spark writes it as the one part of a directory. Raise
    `NotASummary`."""
    parts = sorted(path.glob("part-*")) if path.is_dir() else [path]
    if len(parts) != 1:
        raise NotASummary(f"{path} is a directory without one summary in it: name its summary.json")
    try:
        with parts[0].open("rb") as file:
            data = file.read(SUMMARY_BYTES_MAX + 1)
    except OSError as error:
        raise NotASummary(f"{path} cannot be read: {error.strerror}; see to it") from None
    if len(data) > SUMMARY_BYTES_MAX:
        raise NotASummary(f"{path} has more than {SUMMARY_BYTES_MAX:,} bytes: name the summary.json of an audit")
    return heads_in(str(path), data)
