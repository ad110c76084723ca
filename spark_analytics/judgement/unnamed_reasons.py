"""Reasons for which a router says that messages ended, and which it did not have: the header of a segment names all
words that may stand in it, beside those that all routers have.

A reason by its number (`reason-70`) is one that a recipient or a neighbour gave, and for which the router had no word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from .chain import Seal
from .evidence import Evidence
from .schema import ENDS

CLAIM = "unknown-reason"
NUMBERED = "reason-[0-9]{1,5}"
"""The spelling of a reason by its number, for Python, Spark and DuckDB."""
_numbered = re.compile(NUMBERED)


class Unnamed(NamedTuple):
    """What tells lines of reasons that were not named. `files`: of the routers in question `(router, first_seq,
    last_seq, number)` of each segment that names reasons, with the number of what it names; `named`: `(number, reason)`
    for each reason in question that is named; `asked`: the reasons in question."""

    files: list[tuple[str, int, int, int]]
    named: list[tuple[int, str]]
    asked: list[str]


def is_everywhere(reason: str, known: Collection[str]) -> bool:
    """Whether a reason may stand in each log. `known`: the words that all routers have."""
    return reason in known or _numbered.fullmatch(reason) is not None


def unnamed(evidence: Evidence, tallied: Iterable[Mapping[str, Any]], known: Collection[str]) -> Unnamed | None:
    """Return where to look for reasons that were not named; None if each segment names all that its router says.
    `tallied`: rows `router`, `event`, `reason`, `at_door` of an audit."""
    odd: dict[str, set[str]] = {}
    for row in tallied:
        is_end = row["event"] in ENDS and not row["at_door"] and row["reason"] is not None
        if is_end and not is_everywhere(row["reason"], known):
            odd.setdefault(row["router"], set()).add(row["reason"])
    telling = [seal for seal in _telling(evidence) if seal.router in odd]
    liars = {seal.router for seal in telling if odd[seal.router] - (seal.reasons or set())}
    numbers: dict[frozenset[str], int] = {}
    files = [
        (seal.router, seal.first_seq, seal.last_seq, numbers.setdefault(seal.reasons or frozenset(), len(numbers)))
        for seal in telling
        if seal.router in liars
    ]
    asked = set[str]().union(*(odd[router] for router in liars))
    named = [(number, reason) for words, number in numbers.items() for reason in sorted(asked & words)]
    return Unnamed(files, named, sorted(asked)) if liars else None


def named_by(evidence: Evidence) -> dict[str, set[str]]:
    """Return the reasons that the segments of each router name."""
    found: dict[str, set[frozenset[str]]] = {}
    for seal in _telling(evidence):
        found.setdefault(seal.router, set()).add(seal.reasons or frozenset())
    return {router: set[str]().union(*sets) for router, sets in found.items()}


def _telling(evidence: Evidence) -> list[Seal]:
    """Return the segments that count and name reasons."""
    good = {file.path for file in evidence.files if file.status == "good"}
    return [seal for seal in evidence.seals if seal.reasons is not None and seal.path in good]
