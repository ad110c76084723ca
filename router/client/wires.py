"""Messages as bytes: signed without being sent, handed in unchanged, forwarded by a named router, pulled by id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import trio

from router.client.composer import Composed, Composer, GroupSender, Lifetime
from router.client.custody.outbox import Silent, Submission
from router.client.interrupts import uninterrupted
from router.client.publishing import Posted, Publishing
from router.core.wire.codec import frame, unframe
from router.core.wire.control import Carried, Control, Pull, encode_control
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import Outcome
from router.core.wire.message import message_id, with_via

Done = Callable[[Posted], None]
HeardPulled = Callable[[bytes | None], None]
"""Callback that gets a message's bytes, or None if there was no answer in time."""


class _Asked(NamedTuple):
    heard: HeardPulled
    over: trio.Event


@uninterrupted
class Wires:
    """Work with the signed bytes of an app's messages; `Node.wires`. `make_room()` makes room for what is pulled."""

    def __init__(self, composer: Composer, publishing: Publishing, make_room: Callable[[], None]) -> None:
        self._composer = composer
        self._make_room = make_room
        self._publishing = publishing
        self._pulled: dict[MessageId, list[_Asked]] = {}
        self.on_outcome: Callable[[Outcome], None] = _ignore
        """Called with each outcome that the router reports, if this app has asked for them."""
        self.on_lost: Callable[[], None] = _nothing
        """Called when there is no connection to the router, maybe several times."""

    def __repr__(self) -> str:
        return f"<wires: {len(self._pulled)} messages are pulled>"

    def unicast(self, to: PublicKey, body: bytes, lifetime: Lifetime, via: PublicKey | None = None) -> bytes:
        """Sign a message to one address without sending it. `via` names the next router."""
        wire = unframe(self._composer.unicast(to, body, lifetime).frame)
        return wire if via is None else with_via(wire, via)

    def multicast(self, sender: GroupSender, body: bytes, lifetime: Lifetime, *, raw: bool) -> bytes:
        """Sign a message to a group without sending it."""
        return unframe(self._composer.multicast(sender, body, lifetime, raw=raw).frame)

    async def hand_in(self, wire: bytes, done: Done | None = None) -> Posted:
        """Hand signed bytes in as soon as there is room; `done` is called when they are in custody, or refused."""
        composed = Composed(message_id(wire), frame(wire), _nothing, _nothing, _nothing)
        posted, _ = await self._publishing.post(lambda: composed, done=done)
        return posted

    @property
    def has_room(self) -> bool:
        """Whether something can be handed in at once."""
        return self._publishing.has_room

    async def until_room(self) -> None:
        """Wait until something can be handed in. Raises `NodeUnavailable`."""
        await self._publishing.until_room()

    def submit(self, run: Submission) -> None:
        """Hand in signed bytes, whose outcome goes to the caller's own sink; there must be room."""
        self._publishing.submit(run)

    async def forward(self, wire: bytes, via: PublicKey) -> MessageId:
        """Forward a multicast as it was received, to the router `via` alone, and return its id once it is in custody.

        Only local services and apps may. Raises `Refused`, `NodeUnavailable`.
        """
        posted = await self.hand_in(with_via(wire, via))
        await posted.wait()
        return posted.id

    def say(self, control: Control) -> None:
        """Send a control message to the own router, once: nothing follows if it is refused, or the link is lost.

        The node must have been up before."""
        router = self._publishing.link.router
        assert router is not None
        self._publishing.put(Submission(self._composer.control(router, encode_control(control)), Silent(), again=False))

    async def pull(self, group: PublicKey, id: MessageId, timeout_s: float) -> bytes | None:
        """Return the message of that id as its router holds it; None if there is no answer in time."""
        found: list[bytes | None] = []
        ended = await self.begin_pull(group, id, found.append, timeout_s)
        await ended()
        return found[0]

    async def begin_pull(
        self, group: PublicKey, id: MessageId, heard: HeardPulled, timeout_s: float
    ) -> Callable[[], Awaitable[None]]:
        """Ask for the message of that id, and return what waits until `heard` was called.

        Messages that are asked for one after the other are heard in the order in which the router answers."""
        self._make_room()
        await self._publishing.until_up()
        asked = _Asked(heard, trio.Event())
        self._pulled.setdefault(id, []).append(asked)
        self.say(Pull(group, id))

        async def ended() -> None:
            try:
                with trio.move_on_after(timeout_s):
                    await asked.over.wait()
            finally:
                self._forget(id, asked)
            if not asked.over.is_set():
                heard(None)

        return ended

    def _forget(self, id: MessageId, asked: _Asked) -> None:
        waiting = self._pulled.get(id, [])
        with suppress(ValueError):
            waiting.remove(asked)
        if not waiting:
            self._pulled.pop(id, None)

    def hear(self, carried: Carried) -> None:
        """Handle the answer to a PULL: a message that the router carries to this app."""
        if self._pulled:
            for asked in self._pulled.pop(message_id(carried.message_wire), ()):
                asked.heard(carried.message_wire)
                asked.over.set()


def _nothing() -> None:
    """Do nothing: bytes handed in unchanged took no sequence number here, and no caller asks about connections."""


def _ignore(outcome: Outcome) -> None:
    """Do nothing: no caller has asked for outcomes."""
