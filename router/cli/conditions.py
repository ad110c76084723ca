"""The end of a demo: what was counted, and whether each of its conditions held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from router.cli.exits import Exit
from router.cli.output import say, say_json


class Condition(NamedTuple):
    """A condition that must hold, the number that was counted, and whether it held."""

    text: str
    counted: int
    holds: bool


def show_conditions(conditions: Sequence[Condition], summary: str, *, as_json: bool, **facts: Any) -> None:
    """Print each condition with its count behind the summary, or with the facts as JSON; exit with `Exit.FAILED` if one
    does not hold."""
    holds = all(one.holds for one in conditions)
    if as_json:
        say_json({"checks": [one._asdict() for one in conditions], **facts, "ok": holds})
    else:
        say(summary)
        for one in conditions:
            say(f"{'ok  ' if one.holds else 'NO  '}{one.counted:>6}  {one.text}")
    if not holds:
        raise SystemExit(Exit.FAILED)
