"""The outcomes of a conformance checker, a line each: what was sent to another program, and what it answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from difflib import get_close_matches
from typing import NamedTuple

import click

from router.cli.output import note, say, say_json
from router.core.wire.text import counted

_OK = {True: "ok", False: "WRONG", None: "left out"}


class CheckResult(NamedTuple):
    """The result of a check. `ok` is None if it was left out, for the reason in `got`."""

    check: str
    state: str
    sent: str
    expected: str
    got: str
    ok: bool | None


def check_names(only: Collection[str], names: Collection[str]) -> None:
    """Refuse a name that no check has: it would choose none, and all of none are met. Raise `UsageError`."""
    for name in only:
        if name not in names:
            close = get_close_matches(name, sorted(names), n=1)
            hint = f"did you mean {close[0]!r}?" if close else "without --only all checks are made, and named"
            raise click.UsageError(f"--only: no check is named {name!r}; {hint}")


async def show_all(outcomes: AsyncIterator[CheckResult], *, as_json: bool) -> int:
    """Print each outcome as it comes, and at the end how many there were; return how many are wrong."""
    found: list[bool | None] = []
    async for outcome in outcomes:
        found.append(outcome.ok)
        if as_json:
            say_json(outcome._asdict())
        else:
            say("\t".join([*outcome[:-1], _OK[outcome.ok]]))
    right, wrong, left_out = map(found.count, (True, False, None))
    note(f"{counted(len(found), 'check')}: {right} ok, {wrong} wrong, {left_out} left out")
    return wrong
