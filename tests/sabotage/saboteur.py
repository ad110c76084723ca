"""Sabotage of good logs, from a seed: each does one thing to one log, and states the findings of an audit.

This file needs only write access to the disk; `seals.py` needs a router's key, and `liar.py` holds what only the router
itself can sign.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable

from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from sabotage.absent import OF_THE_ABSENT
from sabotage.claimant import CLAIMS
from sabotage.false_heads import BEYOND
from sabotage.liar import LIES, LIES_OF_TWO
from sabotage.logs import LogFile, segments
from sabotage.of_two import APART, OF_LINKS, OF_THREE, OF_TWO
from sabotage.scene import Scene
from sabotage.seals import SEALED
from sabotage.set_clocks import EXCUSED


def _not_the_last(scene: Scene) -> LogFile:
    """Choose a segment after which the log goes on, so that its absence can be detected."""
    return scene.chance.choice(segments(scene.logs[scene.victim(2)])[:-1])


def removed_segment(scene: Scene) -> None:
    one = _not_the_last(scene)
    one.path.unlink()
    scene.lose(one, None, f"events {one.first} to {one.last} are not known", "no file given holds them")


def truncated(scene: Scene) -> None:
    one = scene.segment(2)
    data = one.path.read_bytes()
    one.path.write_bytes(data[: scene.chance.randrange(len(data) // 4, len(data) * 3 // 4)])
    scene.lose(one, "bad", one.path.name, "cut off")


def edited_byte(scene: Scene) -> None:
    one = scene.segment()
    data = bytearray(one.path.read_bytes())
    places = [at for at in range(len(data) // 3, len(data) * 2 // 3) if chr(data[at]).isdigit()]
    at = scene.chance.choice(places)
    data[at] = ord("7") if data[at] != ord("7") else ord("3")
    one.path.write_bytes(data)
    scene.lose(one, "bad", one.path.name, "they were changed")


def swapped_lines(scene: Scene) -> None:
    one = scene.segment()
    lines = one.path.read_bytes().splitlines(keepends=True)
    at = scene.chance.randrange(1, len(lines) - 2)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    one.path.write_bytes(b"".join(lines))
    scene.lose(one, "bad", one.path.name, "they were changed")


def copied_elsewhere(scene: Scene) -> None:
    """Copy a segment to another directory: it counts once."""
    one = scene.segment()
    other = scene.directory / "backup" / one.path.name
    other.parent.mkdir(exist_ok=True)
    shutil.copy(one.path, other)
    scene.statuses[max(one.path, other)] = "copy"


def copied_beside(scene: Scene) -> None:
    """Copy a segment to a name with another sequence number: it counts once."""
    one = scene.segment()
    other = one.path.with_name("events-0000009999999999.jsonl")
    shutil.copy(one.path, other)
    scene.statuses[other] = "copy"
    scene.tell("warning", other.name)


def emptied(scene: Scene) -> None:
    one = scene.segment(2)
    one.path.write_bytes(b"")
    scene.lose(one, "bad", one.path.name, "empty")


def directory_instead(scene: Scene) -> None:
    """Put a directory in a segment's place: it is not listed as a file, so the segment is missing."""
    one = _not_the_last(scene)
    one.path.unlink()
    one.path.mkdir()
    scene.lose(one, None, f"events {one.first} to {one.last} are not known")


def broken_link(scene: Scene) -> None:
    """Replace a segment by a broken link. At the log's end this would not be noticed: a link does not show how far a
    log reached."""
    one = _not_the_last(scene)
    one.path.unlink()
    one.path.symlink_to(one.path.parent / "gone")
    scene.lose(one, "bad", one.path.name)


def garbage_line(scene: Scene) -> None:
    one = scene.segment()
    lines = one.path.read_bytes().splitlines(keepends=True)
    lines[scene.chance.randrange(1, len(lines) - 1)] = b'{"v":1,"event":"accepted","seq":\xff\x00\n'
    one.path.write_bytes(b"".join(lines))
    scene.lose(one, "bad", one.path.name, "not a line of an event log")


def without_footer(scene: Scene) -> None:
    """Cut off the newest segment's footer under its final name, and leave a draft, which is not read."""
    victim = scene.victim(2)
    one = segments(scene.logs[victim])[-1]
    lines = one.path.read_bytes().splitlines(keepends=True)
    one.path.write_bytes(b"".join(lines[:-1]))
    one.path.with_name(".open-0000000000000001").write_bytes(lines[1])
    scene.lose(one, "bad", one.path.name, "no footer")


def cut_tail(scene: Scene) -> None:
    """Remove whole segments at the end. Only a neighbour that received their head can detect it, which `Scene.expected`
    asks for."""
    found = segments(scene.logs[scene.victim(3)])
    for one in found[scene.chance.randrange(1, len(found)) :]:
        one.path.unlink()


def not_a_log(scene: Scene) -> None:
    """Add a picture under a segment's name, which may have been a segment, and files under other names, which were
    none."""
    victim = scene.victim()
    directory = scene.logs[victim]
    scene.holes[victim].append(segments(directory)[-1].last + 1)
    picture = directory / "events-0000008888888888.jsonl"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + scene.chance.randbytes(500))
    (directory / "notes.txt").write_text("nothing to see")
    (scene.directory / "empty" / "log").mkdir(parents=True)
    scene.statuses[picture] = "bad"
    scene.tell("bad", picture.name)


def pruned(scene: Scene) -> None:
    """Prune the oldest segments as a router does: nothing is missing, but their lines are gone."""
    victim = scene.victim(3)
    directory = scene.logs[victim]
    oldest = segments(directory)[: scene.chance.randrange(1, 3)]
    keep_bytes = sum(one.path.stat().st_size for one in segments(directory)) - sum(
        one.path.stat().st_size for one in oldest
    )
    scene.pruned.add(victim)
    assert Segments(directory, scene.keys[victim], LogLimits()).prune(0.0, 0.0, keep_bytes) == len(oldest)


def edited_footer(scene: Scene) -> None:
    one = scene.segment()
    lines = one.path.read_bytes().splitlines(keepends=True)
    lines[-1] = lines[-1].replace(b'"lines":', b'"lines":1')
    one.path.write_bytes(b"".join(lines))
    scene.lose(one, "bad", one.path.name, "not signed by the router")


def pruned_footers_lost(scene: Scene) -> None:
    """Remove old segments, and the footers that would show it."""
    victim = scene.victim(3)
    oldest = segments(scene.logs[victim])[0]
    oldest.path.unlink()
    scene.lose(oldest, None, f"events 1 to {oldest.last} are not known")


def moved(scene: Scene) -> None:
    """Move a segment among those of another router; it counts for its own router."""
    one = scene.segment(2)
    directory = scene.logs[scene.victim()]
    one.path.rename(directory / one.path.name.replace("events-0", "events-1"))
    scene.tell("warning", "events-1")


FILES: tuple[Callable[[Scene], None], ...] = (
    removed_segment, truncated, edited_byte, swapped_lines, copied_elsewhere, copied_beside, emptied, directory_instead,
    broken_link, garbage_line, without_footer, cut_tail, not_a_log, pruned, edited_footer, pruned_footers_lost, moved,
)  # fmt: skip
_OF_OTHERS = (*APART, *OF_TWO, *OF_LINKS, *OF_THREE, *EXCUSED, *BEYOND)
SABOTAGES = {one.__name__: one for one in (*FILES, *SEALED, *LIES, *LIES_OF_TWO, *CLAIMS, *OF_THE_ABSENT, *_OF_OTHERS)}
BESIDE_A_SOUND_LOG = [one.__name__ for one in OF_TWO]
"""What the sound log of one neighbour tells of several others."""
ALONE = ("rewritten", "another_ttl", *(one.__name__ for one in _OF_OTHERS))
"""What only other logs tell of, which may be damaged too where there is other sabotage."""
_SETS = 12
TOGETHER = [
    *([name] for name in ALONE if name not in BESIDE_A_SOUND_LOG and SABOTAGES[name] not in (*EXCUSED, *BEYOND)),
    BESIDE_A_SOUND_LOG,
    [one.__name__ for one in EXCUSED],
    *([one.__name__] for one in BEYOND),
    *([name for name in SABOTAGES if name not in ALONE][at::_SETS] for at in range(_SETS)),
]
"""All of them, in sets that one scene can have at once."""


def spoil(scene: Scene, names: Iterable[str]) -> None:
    """Apply each to another log; first those that need a certain one, last those that change files alone."""
    for name in sorted(
        dict.fromkeys(names), key=lambda one: (SABOTAGES[one] in FILES, one not in ("broken_custody", "never_sent"))
    ):
        SABOTAGES[name](scene)
