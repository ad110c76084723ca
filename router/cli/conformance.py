"""The outcomes of a conformance checker, a line each: what was sent to another program, and what it answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import NamedTuple

from router.cli.exits import Exit, Failure
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


async def show_all(outcomes: AsyncIterator[CheckResult], only: Collection[str] = (), *, as_json: bool) -> int:
    """Print each outcome as it comes, and at the end how many there were; return how many are wrong. Raise `Failure` if
    a check that was asked for by name (`only`) is not among them."""
    found: list[bool | None] = []
    missing = dict.fromkeys(only)
    async for outcome in outcomes:
        found.append(outcome.ok)
        missing.pop(outcome.check, None)
        if as_json:
            say_json(outcome._asdict())
        else:
            say("\t".join([*outcome[:-1], _OK[outcome.ok]]))
    right, wrong, left_out = map(found.count, (True, False, None))
    note(f"{counted(len(found), 'check')}: {right} ok, {wrong} wrong, {left_out} left out")
    if missing:
        said = f"there is no check {', '.join(map(repr, missing))} here; without --only, all are made and named"
        raise Failure(Exit.USAGE, said)
    return wrong
