"""Alarms of the node about itself: what stands, what is new, and what is over; and how each is said.

Each alarm has a kind, and often a recipient that it is about. It is logged once when it is raised and once when it is
over, as the state event `alarm` (cddl/segment.cddl), and what stands follows from these events alone: a node that was
killed goes on with what its log says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from router.core.wire.text import counted, key_text, short, span_text

ALARM = "alarm"
"""The name of the event."""
RAISED, OVER = "raised", "over"
UNACCOUNTED, REPEATED, FILLING, CLOCK, GAP = "unaccounted", "repeated", "queue-filling", "clock-doubted", "log-gap"
LEVELS = {UNACCOUNTED: "bad", REPEATED: "bad", FILLING: "warning", CLOCK: "warning", GAP: "warning"}
"""How bad each kind is, in the words of the audit."""
GROWING = (UNACCOUNTED, REPEATED, GAP)
"""The kinds that are said again while they stand, if their count has grown: more is lost."""
EACH_MAX = 16
"""Alarms of one kind that name a recipient; the others of that kind are one without a recipient."""

Fields = tuple[tuple[str, str | int | bytes | bool], ...]
Key = tuple[str, bytes]
"""Kind and recipient; an empty recipient: none, or several."""


class NodeAlarm(NamedTuple):
    """A standing alarm. `number`: messages or events that it is about, seconds until the queue is full, or seconds of
    doubt; `arrival`: the arrival number of one of the messages, -1 if it is not known; `since_s`: Unix second in which
    it was raised."""

    kind: str
    recipient: bytes = b""
    number: int = 0
    arrival: int = -1
    since_s: int = 0

    @property
    def key(self) -> Key:
        return self.kind, self.recipient

    @property
    def level(self) -> str:
        return LEVELS.get(self.kind, "warning")

    def fields(self, state: str) -> Fields:
        """Return the fields of the event that says so."""
        peer: Fields = (("peer", self.recipient),) if self.recipient else ()
        arrival: Fields = (("arrival", self.arrival),) if self.arrival >= 0 else ()
        said: Fields = (("alarm", self.kind), ("state", state), ("since_s", self.since_s), ("number", self.number))
        return (*said, *peer, *arrival)

    def text(self, name: str, home: str) -> str:
        """Return the sentence for the operator: what is wrong; then, after a semicolon, what to do, with commands as
        they are to be typed. `name`: of the recipient, "" if it has none here; `home`: the node's directory, as a word
        for a shell."""
        address = key_text("addr", self.recipient) if self.recipient else ""
        of = f" for {name or address}" if self.recipient else " for several recipients"
        messages = counted(self.number, "message") if self.number else "messages"
        match self.kind:
            case "unaccounted":
                at = f" (arrival number {self.arrival})" if self.arrival >= 0 else ""
                return (
                    f"the log says that {messages}{of}{at} must still wait, and the store does not have them; keep "
                    f"store/ and log/ as they are: `router audit {home}` names what was lost once its "
                    "time is over"
                )
            case "repeated":
                return (
                    f"the store still holds {messages}{of} that ended by the log, and hands them over again; look "
                    "whether the disk of store/ lost writes"
                )
            case "queue-filling":
                return self._filling(name or short(address), address)
            case "clock-doubted":
                since = span_text(self.number)
                return f"the clock has been doubted for {since}, and nothing expires; see `router clock`"
            case "log-gap":
                return (
                    f"{counted(self.number, 'event')} of the log cannot be found; what became of messages in them is "
                    "not known: look whether store/ or log/ was damaged or put back"
                )
        return f"{self.kind}{of}: {self.number}; see docs/operators.md"

    def _filling(self, name: str, address: str) -> str:
        ahead = f"full in about {span_text(self.number)}, as it grows now" if self.number else "full"
        if not address:
            return (
                f"several queues are {ahead}; `router queue` lists them: bring those recipients back, or clear the "
                "queue of each that is gone, with `router queue drop` and its address"
            )
        return f"the queue of {name} is {ahead}; bring that recipient back, or clear it: `router queue drop {address}`"


class StandingAlarms:
    """The alarms that stand, by kind and recipient; at most `EACH_MAX` + 1 of each kind that this program knows."""

    def __init__(self) -> None:
        self._standing: dict[Key, NodeAlarm] = {}

    def __iter__(self) -> Iterator[NodeAlarm]:
        return iter(self._standing.values())

    def __len__(self) -> int:
        return len(self._standing)

    def get(self, key: Key) -> NodeAlarm | None:
        return self._standing.get(key)

    def note(self, fields: Iterable[tuple[str, object]]) -> None:
        """Take an event `alarm` that was committed."""
        said = dict(fields)
        kind, peer, numbers = said.get("alarm"), said.get("peer", b""), [said.get(name) for name in _NUMBERS]
        if not isinstance(kind, str) or not isinstance(peer, bytes):
            return
        number, arrival, since_s = (one if isinstance(one, int) else -1 for one in numbers)
        found = NodeAlarm(kind, peer, number, arrival, since_s)
        if said.get("state") == RAISED:
            if len(self._standing) < len(LEVELS) * (EACH_MAX + 1) or found.key in self._standing:
                self._standing[found.key] = found
        else:
            self._standing.pop(found.key, None)

    def settle(self, now_s: int) -> None:
        """Let no alarm stand since a second that is still to come, after a clock that was ahead was set right."""
        for key, one in self._standing.items():
            if one.since_s > now_s:
                self._standing[key] = one._replace(since_s=now_s)

    def changes(self, found: Collection[NodeAlarm], kinds: Collection[str], now_s: int) -> list[Fields]:
        """Return the fields of the events to log, so that of these kinds what was `found` stands and nothing else."""
        wanted = {one.key: one for kind in kinds for one in self._few(kind, [it for it in found if it.kind == kind])}
        said: list[Fields] = []
        for key, one in wanted.items():
            before = self._standing.get(key)
            if before is None or (key[0] in GROWING and one.number > before.number):
                said.append(one._replace(since_s=now_s if before is None else before.since_s).fields(RAISED))
        said += [one.fields(OVER) for key, one in self._standing.items() if key[0] in kinds and key not in wanted]
        return said

    def _few(self, kind: str, found: list[NodeAlarm]) -> list[NodeAlarm]:
        """Return these alarms of one kind, all but the first few as one: those that stand, then the worst, last the one
        without a recipient."""
        sign, total = (1, min) if kind == FILLING else (-1, sum)
        found.sort(key=lambda one: (not one.recipient, one.key not in self._standing, sign * one.number, one.recipient))
        few, rest = found[:EACH_MAX], found[EACH_MAX:]
        return [*few, *([NodeAlarm(kind, b"", total(one.number for one in rest))] if rest else [])]

    def rows(self) -> tuple[tuple[object, ...], ...]:
        """Return what stands, as rows for the disk."""
        return tuple(tuple(one) for one in self._standing.values())

    def load(self, rows: Iterable[Iterable[object]]) -> None:
        """Take the rows of `rows`; raise ValueError or TypeError if they are none."""
        for kind, recipient, *numbers in rows:
            said = zip(_NUMBERS, numbers, strict=True)
            self.note((("alarm", kind), ("state", RAISED), ("peer", recipient), *said))


_NUMBERS = ("number", "arrival", "since_s")
