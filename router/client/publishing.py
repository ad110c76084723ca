"""Handing messages in: waiting for room, for the node, and for the router's custody."""

from __future__ import annotations

from collections.abc import Callable

import trio

from router.client.composer import Composed
from router.client.custody.outbox import Outbox, Submission
from router.client.errors import NOT_BEGUN, ClientError, NodeUnavailable, Refused
from router.client.interrupts import uninterrupted
from router.client.link import ClientLink
from router.client.outcomes import Followed, Outcomes
from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason

IN_FLIGHT_MESSAGES_MAX = 10_000
IN_FLIGHT_BYTES_MAX = 64 << 20


@uninterrupted
class Posted:
    """One message that was handed in, and the sink of its submission. `done` is called once, when its fate is known."""

    def __init__(self, composed: Composed, done: Callable[[Posted], None] | None, outcomes: Outcomes | None) -> None:
        self.id: MessageId = composed.id
        self.outcomes = outcomes
        self.error: ClientError | None = None
        self.composed = composed
        self._done = done
        self._end = trio.Event()

    def __repr__(self) -> str:
        state = f"failed, {self.error}" if self.error else "settled" if self._end.is_set() else "under way"
        return f"<posted message {self.id.hex()[:12]}…: {state}>"

    @property
    def is_over(self) -> bool:
        return self._end.is_set()

    async def wait(self) -> None:
        """Wait until the router has it in custody. Raise `Refused` or `NodeUnavailable`."""
        await self._end.wait()
        if self.error is not None:
            raise self.error

    def refused(self, reason: Reason, text: str) -> None:
        self.composed.unsay()
        self._over(Refused(reason, text, self.id))

    def ended(self) -> None:
        if not self._end.is_set():
            self.composed.kept()
        self._over(None)

    def failed(self, error: ClientError) -> None:
        self._over(error)

    def _over(self, error: ClientError | None) -> None:
        if not self._end.is_set():
            self.error = error
            self._end.set()
            if self._done is not None:
                self._done(self)


@uninterrupted
class Publishing:
    """Hand in messages. At most `IN_FLIGHT_MESSAGES_MAX` and `IN_FLIGHT_BYTES_MAX` are unsettled; more wait here."""

    def __init__(self, outbox: Outbox, link: ClientLink, *, waits: bool, asks_outcomes: bool) -> None:
        self._outbox = outbox
        self.link = link
        self._waits = waits
        self._asks_outcomes = asks_outcomes
        self._lot = trio.lowlevel.ParkingLot()
        self.followed = Followed()

    def wake(self) -> None:
        self._lot.unpark_all()

    def check(self) -> None:
        """Raise `NodeUnavailable` if nothing can be handed in, now or ever."""
        link = self.link
        if not link.is_begun:
            raise ClientError(NOT_BEGUN)
        if link.is_closed:
            raise NodeUnavailable("this connection to the node has been left; connect again")
        if link.end.final:
            raise NodeUnavailable(link.end.text)
        if link.is_away and not self._waits:
            advice = 'publish again when it is back, or wait for it with when_down="queue" (`router pub --queue`)'
            raise NodeUnavailable(f"the node is away: {link.end.text}; {advice}")

    async def until_up(self) -> None:
        """Wait until there is a connection; raise `NodeUnavailable` if there is none to wait for."""
        self.check()
        while not self.link.is_up:
            await self._lot.park()
            self.check()

    @property
    def has_room(self) -> bool:
        """Whether a message can be handed in at once; not while a lost connection may be up again in a moment."""
        link = self.link
        return not self._outbox.full and (link.is_up or link.is_away or self._waits)

    async def until_room(self) -> None:
        """Wait until there is room; raise `NodeUnavailable` if there will be none."""
        await trio.lowlevel.checkpoint()
        self.check()
        while not self.has_room:
            await self._lot.park()
            self.check()

    def submit(self, run: Submission) -> None:
        """Hand in a submission, for which there must be room."""
        self._outbox.add(run)
        self.link.wake()

    async def post(
        self,
        compose: Callable[[], Composed],
        *,
        done: Callable[[Posted], None] | None = None,
        follow: bool = False,
    ) -> tuple[Posted, Submission]:
        """Compose a message as soon as there is room, and hand it in. If cancelled, nothing was handed in."""
        if follow and not self._asks_outcomes:
            raise ValueError("the node tells outcomes only to apps that ask for them: connect(outcomes=True)")
        await self.until_room()
        composed = compose()
        outcomes = self.followed.follow(composed.id, sealed=composed.sealed) if follow else None
        posted = Posted(composed, done, outcomes)
        run = Submission(composed.frame, posted)
        self.submit(run)
        return posted, run

    async def deliver(self, compose: Callable[[], Composed], *, follow: bool = False) -> Posted:
        """Post a message and wait until it is in custody. If cancelled before it was ever sent, it is taken back."""
        posted, run = await self.post(compose, follow=follow)
        try:
            await posted.wait()
        except BaseException:
            if not posted.is_over and self.take_back(run):
                posted.composed.unsay()
                posted.composed.undo()
            if posted.outcomes is not None:
                self.followed.stop(posted.outcomes)
            raise
        if posted.outcomes is not None and not posted.outcomes.recipients:
            # A node reports the recipients of a message before it settles it: either it reports none to this app, or it
            # did so on an earlier connection.
            self.followed.stop(posted.outcomes)
        return posted

    def put(self, run: Submission) -> None:
        """Hand in a control message before all others, without waiting for room."""
        self._outbox.add(run, urgent=True)
        self.link.wake()

    def take_back(self, run: Submission) -> bool:
        """Take back a submission that was never sent; return whether that was possible."""
        return self._outbox.withdraw(run)

    def end(self, error: ClientError) -> None:
        """Give up all unsettled messages, because the connection is left or gone for good."""
        self._outbox.fail(error)
        self.wake()
