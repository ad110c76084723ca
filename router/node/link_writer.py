"""The output of one link, in order, and its end; without I/O: the owner of the connection overrides three hooks."""

from __future__ import annotations

from collections.abc import Sequence

from router.core.link.liveness import NO_PATH, LinkCheck, Liveness, LivenessLimits, PathView
from router.core.link.session import Session
from router.core.routing.intake import Refusal
from router.core.routing.parcel import Parcel
from router.core.wire import link_items
from router.core.wire.codec import frame
from router.core.wire.reasons import Reason
from router.transport.contract import Buffer

PARTS_MAX = 65_536
PING_NS = 60_000_000_000


class LinkWriter:
    """Collects one link's outgoing bytes until they are written.

    Messages are bounded by the window that the neighbour announced. Link items are not: a neighbour that sends and
    never reads is cut off at `PARTS_MAX`.
    """

    def __init__(
        self, number: int, session: Session, where: str, place: str = "", ip: str = "", path: PathView = NO_PATH
    ) -> None:
        self.number = number
        self.where = where
        self.place = place
        self.ip = ip
        self.closing: tuple[Reason, str] | None = None
        self.is_idle = False  # no message since housekeeping last checked
        self.awaits_answer = False  # it was shown another run of its key, and may have an answer after our goodbye
        self.problem = ""  # a sentence for the operator, as that it refuses our messages
        self.pinged_ns = 0  # the time in the last ping, and in its pong
        self.liveness = Liveness()
        self._session = session
        self._path = path
        session.note_sent(0)
        self._parts: list[Buffer] = list(session.output())

    def __repr__(self) -> str:
        return f"<link writer {self.number} to {self.where}: {len(self._parts)} parts wait>"

    # -- hooks -----------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Wake the task that writes."""

    def _cut(self) -> None:
        """End the connection at once."""

    def _end_soon(self) -> None:
        """End the connection when the goodbye has been written, or after a while."""

    # -- for the message router ------------------------------------------------------------------------------

    def flush_session(self) -> None:
        """Queue the session's own output."""
        self._parts += self._session.output()
        if self._parts:
            self._wake()
        if len(self._parts) > PARTS_MAX and self.closing is None:
            self.closing = Reason.WINDOW_EXCEEDED, "it sends but does not read"
            self._cut()

    def settle(self, n: int, refusals: Sequence[Refusal]) -> None:
        self._session.settle(n, refusals)
        self.flush_session()

    def say(self, item: link_items.Item) -> None:
        if self.closing is None:
            self.awaits_answer |= isinstance(item, link_items.OtherRun)
            self._session.send(item)
            self.flush_session()

    def tell(self, wire: bytes) -> None:
        self._write(frame(wire), 1)

    def hand(self, parcel: Parcel, start: int, stop: int, local: bool) -> None:
        self._write(parcel.frames(start, stop, local=local), stop - start)

    def _write(self, messages: Buffer, count: int) -> None:
        """Queue messages, but none after a goodbye: they stay in custody, for another link."""
        if self.closing is None:
            self._session.note_sent(count)
            self._parts.append(messages)
            self.is_idle = False
            self._wake()

    def close(self, reason: Reason, text: str) -> None:
        """Say goodbye; the connection ends a little later, so that a stopping node still receives settlings."""
        if self.closing is None:
            self.closing = reason, text
            self._session.goodbye(reason, text)
            self.flush_session()
            self._wake()
            self._end_soon()

    def look(self, mono_ns: int, limits: LivenessLimits) -> None:
        """Ping a quiet neighbour, and any other once a minute, for the clock and the log head in its pong; cut a link
        that no longer works. Called every second."""
        owed = self._session.owed if self.ip else None  # the end of a link on this machine shows by itself
        found = self.liveness.look(mono_ns / 1e9, limits, self._path, owed)
        is_minute_over = mono_ns - self.pinged_ns >= PING_NS and not self.liveness.is_asked
        if found is LinkCheck.PING or (found is LinkCheck.WAIT and is_minute_over):
            self.ping(mono_ns)
        elif found.is_end:
            self.closing = self.closing or (Reason.CONNECT_TIMEOUT, found.value)
            self._cut()

    def ping(self, mono_ns: int) -> None:
        self.pinged_ns = mono_ns
        self.liveness.asked(mono_ns / 1e9)
        self.say(link_items.Ping(mono_ns))
