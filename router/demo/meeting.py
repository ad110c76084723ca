"""A scene of `router demo --meet` and its counts, which scenes of `--overlay` use as well."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct, field

from router.cli.output import facts, say
from router.demo.counts import BookCounts
from router.demo.narrator import Telling
from router.demo.processes import Stage


class SceneCounts(Struct):
    """The counts of one scene. `first_s`: seconds from the first command of the meeting until the first message was
    heard; `facts`: further counts by what they count; `wrong`: what should not have happened; `left_out`: why the scene
    was not played, "" if it was."""

    title: str
    left_out: str = ""
    published: int = 0
    first_s: float = 0.0
    heard: list[BookCounts] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Return what should not have happened, as sentences."""
        heard = (said for one in self.heard for said in one.failures())
        return [f"{self.title}: {one}" for one in (*self.wrong, *heard)]

    def check(self, what: str, found: object, wanted: object) -> None:
        """Keep a count under its name; one that is not as wanted is a failure."""
        self.facts[what] = found
        if found != wanted:
            self.wrong.append(f"{what}: {found} instead of {wanted}")


class Scene(Protocol):
    """A module that plays one way of meeting, and counts."""

    TITLE: str

    def why_not(self) -> str:
        """Return why the scene cannot be played on this machine; "" if it can."""

    async def play(self, stage: Stage, telling: Telling) -> SceneCounts:
        """Play the scene, and return its counts."""


def outcome(found: list[SceneCounts]) -> dict[str, Any]:
    """Return all counts, and which of them are failures."""
    failures = [said for one in found for said in one.failures()]
    return {"ok": not failures, "failures": failures, "scenes": found}


def show(found: list[SceneCounts], what: str) -> None:
    """Print the counts of each scene. `what`: the word before its title."""
    for one in found:
        say()
        facts(
            [
                (what, one.title + (f": left out, {one.left_out}" if one.left_out else "")),
                *(
                    []
                    if one.left_out
                    else [
                        ("published", one.published),
                        *((f"received on {heard.where}", _heard(heard)) for heard in one.heard),
                        *([("first message heard after", f"{one.first_s} s")] if one.first_s else []),
                        *one.facts.items(),
                    ]
                ),
            ]
        )


def _heard(one: BookCounts) -> str:
    return f"{one.received}, lost {one.lost}, doubled {one.doubled}, out of order {one.out_of_order}"
