"""A question about the tables of an audit: one file of SQL with a header, which DuckDB and Spark SQL read alike.

    -- Which groups carry the most messages?
    -- limit: number = 20; how many rows to return
    SELECT … LIMIT $limit

The first line is what the question asks. Each following comment line is a parameter: its name, its kind, its default
after `=` if it has one, and what it is for after a semicolon. The name of the file is the name of the question, with
`_` for a space. A parameter becomes a literal of digits, hex digits or a level, so the text that runs can be read and
pasted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from time import time_ns

import click
from msgspec import Struct

from router.cli.when import When, instant
from router.core.why.id_prefix import parse_prefix
from router.core.wire.text import BadText, quoted

NUMBER_MAX = 1_000_000
ASKED_LEVELS = ("bad", "warning", "info")
"""The levels of the table `finding`, the worst first."""
_PARAMETER = re.compile(r"-- (\w+): (\w+)(?: = ([^;]+))?; (.+)")
_TABLE = re.compile(r"\b(?:FROM|JOIN) (\w+)")
_COMMON_TABLE = re.compile(r"\b(\w+) AS \(")


class QuestionError(Exception):
    """A question cannot be asked so; the text says why, and what to write."""


class QuestionParameter(Struct, frozen=True):
    """What a question needs to know. `kind`: `number`, `id`, `time` or `level`; `default`: as a user would type it,
    None if the parameter must be given."""

    name: str
    kind: str
    default: str | None
    about: str


class AuditQuestion(Struct, frozen=True):
    """A question: its name, what it asks, its parameters, and its SQL with `$name` for each of them."""

    name: str
    asks: str
    parameters: tuple[QuestionParameter, ...]
    sql: str

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the published tables that the SQL reads, in alphabetical order."""
        return tuple(sorted({*_TABLE.findall(self.sql)} - {*_COMMON_TABLE.findall(self.sql)}))

    @property
    def usage(self) -> str:
        """Return what to type after `router ask OUT`."""
        name = f'"{self.name}"' if " " in self.name else self.name
        return " ".join((name, *(f"{one.name}={one.kind.upper()}" for one in self.parameters if one.default is None)))

    def filled(self, given: Mapping[str, str]) -> str:
        """Return the SQL with these parameters in it; raise `QuestionError` if one is missing, unknown or invalid."""
        names = [one.name for one in self.parameters]
        for name in given:
            if name not in names:
                known = f"it has {', '.join(names)}" if names else "it has none"
                raise QuestionError(f'"{self.name}" has no parameter {quoted(name)}: {known}')
        literals = {}
        for one in self.parameters:
            text = given.get(one.name, one.default)
            if text is None:
                raise QuestionError(f'"{self.name}" needs {one.name}, {one.about}: router ask OUT {self.usage}')
            literals[one.name] = _literal(one, text)
        return re.sub(r"\$(\w+)", lambda found: literals[found[1]], self.sql)


def parse_question(name: str, text: str) -> AuditQuestion:
    """Return the question in the text of a file; raise `ValueError` if its header or its SQL is not of the form."""
    lines = text.splitlines()
    header = [line for at, line in enumerate(lines) if all(one.startswith("--") for one in lines[: at + 1])]
    if not header or len(header) == len(lines):
        raise ValueError(f"{name}: the file must begin with a comment line that asks the question, and go on with SQL")
    found = []
    for line in header[1:]:
        parameter = _PARAMETER.fullmatch(line)
        if parameter is None or parameter[2] not in _KINDS:
            raise ValueError(f"{name}: {line!r} is no parameter: write `-- name: {'|'.join(_KINDS)} = default; about`")
        found.append(QuestionParameter(*parameter.groups()))
    sql = "\n".join(lines[len(header) :])
    used = set(re.findall(r"\$(\w+)", sql))
    if used != {one.name for one in found}:
        raise ValueError(f"{name}: the SQL uses the parameters {sorted(used)}, the header names others")
    return AuditQuestion(name, header[0].removeprefix("--").strip(), tuple(found), sql)


def choose_question(questions: Mapping[str, AuditQuestion], name: str) -> AuditQuestion:
    """Return the question of that name, in any case, with `-`, `_` or spaces between words; raise `QuestionError` with
    the nearest names if there is none."""
    said = " ".join(re.split(r"[-_\s]+", name.strip().lower()))
    if said in questions:
        return questions[said]
    near = get_close_matches(said, questions, n=3, cutoff=0.5)
    near += [one for one in questions if one not in near and set(one.split()) & set(said.split())]
    names = ", ".join(map('"{}"'.format, near[:3]))
    hint = f"did you mean {names}?" if near else "`router ask OUT` lists all of them"
    raise QuestionError(f"there is no question {quoted(name)}; {hint}")


def _literal(parameter: QuestionParameter, text: str) -> str:
    try:
        return _KINDS[parameter.kind](text)
    except (BadText, ValueError) as error:
        raise QuestionError(f"{parameter.name}={quoted(text)}: {error}") from None
    except click.BadParameter as error:
        raise QuestionError(f"{parameter.name}: {error.message}") from None


def _number(text: str) -> str:
    if not re.fullmatch("[0-9]{1,7}", text) or not 1 <= int(text) <= NUMBER_MAX:
        raise ValueError(f"a whole number from 1 to {NUMBER_MAX:,} is needed")
    return str(int(text))


def _id(text: str) -> str:
    """Return the hex digits of the beginning of an id that the text gives, as a literal."""
    prefix = parse_prefix(text)
    return f"'{prefix.head.hex()[: prefix.bits // 4]}'"


def _time(text: str) -> str:
    """Return nanoseconds since 1970 as a literal, of a time or of how long ago it was."""
    return str(instant(When().convert(text, None, None), time_ns()))


def _level(text: str) -> str:
    """Return a level of findings as a literal."""
    said = text.strip().lower()
    if said not in ASKED_LEVELS:
        raise ValueError(f"a level is needed: {', '.join(ASKED_LEVELS)}")
    return f"'{said}'"


_KINDS: dict[str, Callable[[str], str]] = {"number": _number, "id": _id, "time": _time, "level": _level}
