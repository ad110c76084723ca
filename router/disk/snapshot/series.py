"""The snapshots that a node makes of its home by itself: their names, which of them go, and when the next is due; pure.

The name of each carries a number that only grows, so neither their order nor which of them go depends on a clock that
was wrong. Between two snapshots of one run the time is measured by a clock that is never set; the time in a name counts
only for the first snapshot after a start. A node that got another key goes on with the numbers: the highest one is the
snapshot to restore. The tag of the home tells two homes of one key apart, which share the numbers and nothing else.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable, Iterator, Sequence
from time import gmtime, strftime, strptime

from msgspec import Struct

RETRY_S_MIN, RETRY_S_MAX = 60, 3600
"""The wait after a first failure, which doubles with each further one, and the longest wait."""
UNKNOWN_AGE_S = 3600
"""The longest wait for the first snapshot after a start at which the age of the newest is not known: the clock is
behind it. A node that starts again and again with a wrong clock makes no snapshot at each start."""
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"router-([0-9a-f]{16})-(\d{6,12})-(\d{8}T\d{6}Z)(?:-([0-9a-f]{8}))?\.snapshot", re.ASCII)
NUMBER_MAX = 10**12 - 1
"""The greatest number of a snapshot; no node makes as many, but whoever may write in the directory can write it."""


class Made(Struct, frozen=True, order=True):
    """A snapshot in the directory: its number, its Unix time as its name has it, its name, and the tag of the home that
    made it."""

    number: int
    at_s: int
    name: str
    home: str = ""


def next_name(router: bytes, made: Sequence[Made], at_s: int, home: str = "") -> str:
    """Return the name of the next snapshot of the node with this key, made by the home with this tag.

    Raise `ValueError` if there is no greater number: a snapshot without one would never go."""
    number = made[-1].number + 1 if made else 1
    if number > NUMBER_MAX:
        raise ValueError(f"no number is greater than that of {made[-1].name}, which no node made: move that file")
    return f"router-{router.hex()[:16]}-{number:06d}-{strftime(_STAMP, gmtime(at_s))}{home and '-'}{home}.snapshot"


def made_of(router: bytes, names: Iterable[str], formers: Iterable[bytes] = ()) -> list[Made]:
    """Return those of the names that a node with this key gave to snapshots, in any home, in the order of their
    numbers. `formers`: the keys that it had before."""
    ours = {key.hex()[:16] for key in (router, *formers)}
    return sorted(made for key, made in _read(names) if key in ours)


def _read(names: Iterable[str]) -> Iterator[tuple[str, Made]]:
    """Yield the snapshots among the names, each behind the first digits of its node's key."""
    for name in names:
        if fits := _NAME.fullmatch(name):
            try:
                yield fits[1], Made(int(fits[2]), timegm(strptime(fits[3], _STAMP)), name, fits[4] or "")
            except ValueError:  # no such day: the name is somebody else's
                continue


def newest_of_each(names: Iterable[str]) -> list[Made]:
    """Return of each home whose snapshots are among the names the one with the highest number, ordered by their names:
    also where its node got another key. Of names without the tag of a home those of a key belong together."""
    newest: dict[str, Made] = {}
    for key, made in _read(names):
        of = made.home or key
        newest[of] = max(made, newest.get(of, made))
    return sorted(newest.values(), key=lambda made: made.name)


def newest_beside(name: str, names: Iterable[str]) -> str:
    """Return the name of the snapshot with the highest number that the home which made this one made, "" if this is it
    or does not say which home made it."""
    for _, this in _read([name]):
        others = [made for _, made in _read(names) if this.home and made.home == this.home]
        newest = max(others, default=this)
        return newest.name if newest.number > this.number else ""
    return ""


def draft_name(name: str) -> str:
    """Return the name of a snapshot while it is written."""
    return f".{name}.draft"


def snapshot_of_draft(name: str) -> str:
    """Return the name that the snapshot of a draft would have had; "" if the name is not that of a draft."""
    return name[1:-6] if name.startswith(".") and name.endswith(".draft") else ""


def of_home(made: Iterable[Made], home: str) -> list[Made]:
    """Return those that the home with this tag made."""
    return [one for one in made if one.home == home]


def expired(made: Sequence[Made], keep: int) -> list[Made]:
    """Return the snapshots that go, the oldest ones, so that `keep` stay."""
    return list(made[: max(0, len(made) - keep)])


class SnapshotTimer:
    """When the next snapshot is due. Times are seconds of a clock that is never set and runs on in standby. `age_s`:
    how old the newest is, None if there is none, negative if its time lies ahead of the wall clock."""

    def __init__(self, every_s: float, now_s: float, age_s: float | None) -> None:
        self.every_s = every_s
        self.made_s: float | None = None
        self._failures = 0
        if age_s is None:
            self.at_s = now_s
        elif age_s < 0:
            self.at_s = now_s + min(every_s, UNKNOWN_AGE_S)
        else:
            self.made_s = now_s - age_s
            self.at_s = max(now_s, self.made_s + every_s)

    def __repr__(self) -> str:
        return f"<snapshot due at {self.at_s:.0f} s, every {self.every_s:.0f} s>"

    def hurry(self, now_s: float) -> None:
        """Let the next one be due now, as the newest lacks something that must not be lost."""
        self.at_s = now_s

    def made(self, now_s: float) -> None:
        """Record that a snapshot was begun at `now_s` and is whole."""
        self.made_s, self._failures = now_s, 0
        self.at_s = now_s + self.every_s

    def failed(self, now_s: float) -> None:
        """Record that one failed; the next attempt comes sooner than usual."""
        wait_s = min(RETRY_S_MIN << min(self._failures, 10), RETRY_S_MAX, self.every_s)
        self._failures += 1
        self.at_s = now_s + wait_s

    def age_s(self, now_s: float) -> float | None:
        """Return the age of the newest snapshot, None if there is none or it is not known."""
        return None if self.made_s is None else now_s - self.made_s
