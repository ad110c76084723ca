"""`router demo --meet`: nodes that know nothing of each other meet, in one scene for each way of meeting."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from router.demo import by_invitation, on_a_lan
from router.demo.meeting import Scene, SceneCounts
from router.demo.narrator import Telling
from router.demo.processes import Stage, on_stage

SCENES: dict[str, Scene] = {
    "by-invitation": cast(Scene, by_invitation),
    "on-a-lan": cast(Scene, on_a_lan),
}
"""The scenes in their order, by the name of the directory in which each is played."""

ENDING = "Whoever was let in has heard everything since, once."


async def perform(base: Path, telling: Telling) -> list[SceneCounts]:
    """Play each scene in a directory of its own, and end its processes; one that cannot be played is left out."""
    return [await _played(scene, base / name, telling) for name, scene in SCENES.items()]


async def _played(scene: Scene, base: Path, telling: Telling) -> SceneCounts:
    if why_not := scene.why_not():
        telling.say(f"Meeting {scene.TITLE} is left out: {why_not}")
        return SceneCounts(scene.TITLE, left_out=why_not)
    base.mkdir()
    telling.say(f"\nMeeting {scene.TITLE}\n")

    async def play(stage: Stage) -> SceneCounts:
        found = await scene.play(stage, telling)
        found.wrong += [f"{name} printed a traceback" for name in stage.tracebacks()]
        return found

    return await on_stage(base, play)
