"""Rules that consist of parts: each gets the events that concern it, reads messages of its types, and has a wake-up of
its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from router.core.wire.codec import Malformed
from router.core.wire.forms import UnknownMessage
from router.core.wire.reasons import Reason
from router.service import contract as c

_ROUNDED_S = 1e-4
"""Seconds that a time may lose by being converted to a Unix second and back."""


class RulesPart(Protocol):
    """A part of a service, with a duty of its own."""

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """Return the deeds that follow from one event, which is no unicast.

        A part gets `Tick` when the time of its own last `Wake` has come."""


class Reader(RulesPart, Protocol):
    """A part that gets messages from services of the same role on other nodes."""

    def read(self, message: c.Message, said: Any, now: c.Now) -> list[c.Deed]:
        """Return the deeds that follow from a unicast of one of the types it reads. `said`: its decoded body."""


class Parts:
    """Passes a service's events to its parts, in their order, and joins their deeds.

    `readers`: the part that reads each type of unicast. `decode` returns the message in a body, or raises `Malformed`.
    """

    __slots__ = ("_decode", "_name", "_parts", "_readers", "_told_s", "_wakes")

    def __init__(
        self, name: str, parts: Sequence[RulesPart], readers: Mapping[type, Reader], decode: Callable[[bytes], object]
    ) -> None:
        self._name = name
        self._parts = tuple(parts)
        self._readers = {kind: (self._parts.index(reader), reader) for kind, reader in readers.items()}
        self._decode = decode
        self._wakes: dict[int, float] = {}  # seconds of the clock that is never set back
        self._told_s: float | None = None  # the wake that was returned last, until its Tick

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """Return the deeds of all parts, with the earliest of their wakes, unless it was returned before."""
        if isinstance(heard, c.Message) and heard.group is None:
            return [*self._read(heard, now), *self._next_wake(now)]
        concerned: Iterable[int] = range(len(self._parts))
        if isinstance(heard, c.Tick):
            self._told_s = None
            concerned = [at for at, wake_s in self._wakes.items() if wake_s <= now.mono_s + _ROUNDED_S]
            for at in concerned:
                del self._wakes[at]
        deeds: list[c.Deed] = []
        for at in concerned:
            if found := self._parts[at].hear(heard, now):
                deeds += self._of_part(at, found, now)
        if isinstance(heard, c.Asked) and not deeds:
            said = f'the service {self._name} has no answer to "{heard.word}" now, and perhaps is of another kind'
            deeds = [c.Answer(heard.number, {"error": f"{said}; `router status` lists the services"})]
        return [*deeds, *self._next_wake(now)]

    def go_on(self, part: RulesPart, now: c.Now) -> list[c.Deed]:
        """Give a part its `Tick` before the time of its last `Wake`, because another part has found work for it."""
        at = self._parts.index(part)
        self._wakes.pop(at, None)
        return [*self._of_part(at, part.hear(c.Tick(), now), now), *self._next_wake(now)]

    def _read(self, message: c.Message, now: c.Now) -> Iterator[c.Deed]:
        if message.source is None:
            return
        try:
            said = self._decode(message.body)
        except UnknownMessage as error:
            yield c.Refuse(Reason.UNSUPPORTED, str(error))
            return
        except Malformed as error:
            yield c.Refuse(Reason.MALFORMED, str(error))
            return
        at, reader = self._readers.get(type(said), (0, None))
        if reader is None:
            yield c.Refuse(Reason.UNSUPPORTED, f"this node hears no {type(said).__name__}")
            return
        yield from self._of_part(at, reader.read(message, said, now), now)

    def _of_part(self, at: int, deeds: list[c.Deed], now: c.Now) -> Iterator[c.Deed]:
        """Yield a part's deeds except its `Wake`, which is recorded: the earliest of all parts counts."""
        for deed in deeds:
            if isinstance(deed, c.Wake):
                self._wakes[at] = round(now.mono_s + (deed.at_s - now.wall_s), 4)
            else:
                yield deed

    def _next_wake(self, now: c.Now) -> list[c.Deed]:
        if not self._wakes or (next_s := min(self._wakes.values())) == self._told_s:
            return []
        self._told_s = next_s
        return [c.Wake(now.wall_s + (next_s - now.mono_s))]
