"""An app's connection to its node: dialled again whenever it is lost, with all unsettled messages.

One task reads, one writes; output collects in the session, the outbox and the inbox until the writer takes all of it in
one go, so batches form by themselves. On a new connection the JOINs go first, then the unsettled messages, in their old
order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import trio
from msgspec import Struct

from router.client.app_end import FINAL, AppEnd, End
from router.client.bell import Bell
from router.client.errors import NodeUnavailable
from router.client.interrupts import uninterrupted
from router.client.joins import ASK_AGAIN_S
from router.core.link.liveness import LinkCheck, Liveness, LivenessLimits
from router.core.link.machine import RemoteProtocolError
from router.core.link.session import Offer, Session
from router.core.service.back_off import BackOff
from router.core.wire import link_items
from router.core.wire.admin import ALL_NUMBERED, NUMBERED
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.transport import contract as transport
from router.transport.contract import ConnectFailed, Stream, StreamBroken
from router.transport.dialling import Approach, dial
from router.transport.network_changes import watch

log = logging.getLogger(__name__)

READ_BYTES_MAX = 256 * 1024
PATIENCE_S = 30.0
RETRY = BackOff(0.1, 15.0)
SOCKET_S, SOCKET_PAUSE_S = 5.0, 0.05
"""How long and how often the socket of a node is tried that starts, or makes it again."""
CLOSE_S = 2.0
LOOK_S, LOCAL_LOOK_S = 1.0, 10.0
"""How often a quiet connection is looked at; one on this machine shows its end by itself."""
LIVENESS = LivenessLimits()


class Dialling(Struct, frozen=True):
    """Where to dial, and the limits of waiting. `expect` pins the router's key; `random` returns 0 to 1, for jitter;
    `known_cause` returns why connecting fails, as far as the home shows it, else ""; `is_held` whether a node holds the
    home, so that its socket will be there in a moment.

    `patience_s`: after this long without a node, unsettled messages are given up; infinite if they are to be queued.
    """

    url: str
    expect: PublicKey | None
    patience_s: float
    random: Callable[[], float]
    dial_s: float = 10.0
    known_cause: Callable[[], str] = str
    is_held: Callable[[], bool] = bool


@uninterrupted
class ClientLink:
    """Keep an app connected until an end is `final` or `close` is called. `changed` is called when the state changes.
    `to_write` is rung when there is something to send to the node, `to_ask` when the app wants another group. `key_now`
    returns the key that is kept under the app's name, when that may be another one; None if it has no name.

    `is_away`: the last attempt to connect failed. Between losing a connection and the next attempt it is neither up nor
    away.
    """

    def __init__(
        self,
        dialling: Dialling,
        key: SigningKey,
        offer: Callable[[], Offer],
        app: AppEnd,
        changed: Callable[[], None],
        to_write: Bell,
        to_ask: Bell,
        key_now: Callable[[], SigningKey | None] = lambda: None,
    ) -> None:
        self._dialling = dialling
        self._key = key
        self._offer = offer
        self._app = app
        self._changed = changed
        self._to_write = to_write
        self._to_ask = to_ask
        self._key_now = key_now
        self._goodbye: tuple[Reason, str] | None = None
        self._said_goodbye = trio.Event()
        self._tried = trio.Event()
        self._scope = trio.CancelScope(shield=True)
        self._is_away = True
        self._approach = Approach()
        self._liveness = Liveness()
        self._moved = trio.Event()
        self.is_begun = self.is_closed = False
        self.end = End("no connection has been tried")

    def __repr__(self) -> str:
        state = "up" if self.is_up else f"down, {self.end.text}"
        return f"<link of an app to {self._dialling.url}: {state}>"

    @property
    def router(self) -> PublicKey | None:
        """Return the node's router; None until it is known."""
        return self._app.router

    @property
    def answers_by_number(self) -> bool:
        """Whether the router repeats the number of a service's request in its answer."""
        return NUMBERED in self._features

    @property
    def answers_all_by_number(self) -> bool:
        """Whether the router repeats the number of every question in its answer."""
        return ALL_NUMBERED in self._features

    @property
    def _features(self) -> tuple[str, ...]:
        hello = self._app.session.hello if self.is_up else None
        return () if hello is None else hello.features

    @property
    def is_up(self) -> bool:
        return self._app.is_up

    @property
    def has_said_goodbye(self) -> bool:
        """Whether the node has said that it stops, and this app has not been connected since."""
        goodbye = self.end.goodbye
        return not self.is_up and goodbye is not None and goodbye.reason is Reason.SHUTDOWN

    @property
    def is_away(self) -> bool:
        return self._is_away and not self.is_up

    def wake(self) -> None:
        """Let the writer task write."""
        self._to_write.ring()

    async def first_try(self) -> None:
        """Return when the first connection has failed, or the node knows this app on it."""
        await self._tried.wait()

    async def close(self) -> None:
        """Send settlements and goodbye, within a short time limit, and end; also when cancelled."""
        try:
            await self._say_goodbye()
        finally:
            self.cut()

    def cut(self) -> None:
        """End at once."""
        self.is_closed = True
        self._scope.cancel()

    async def _say_goodbye(self) -> None:
        self.is_closed = True
        if self.is_up:
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._app.joins.all_again()  # on a new connection, redelivered messages are settled first
            self._said_goodbye = trio.Event()
            self._goodbye = Reason.LEFT, "the app signs off"
            self.wake()
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._said_goodbye.wait()

    # -- one connection after the other --------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the connection; only `close` ends this, so that a cancelled app can still settle messages that it has
        handled."""
        self.is_begun = True
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    if not transport.is_local(self._dialling.url):
                        nursery.start_soon(watch, self._network_changed)
                    await self._keep_connected()
                    nursery.cancel_scope.cancel()
        finally:
            self._app.lost()
            if self.is_closed:
                self.end = End("left")

    async def _keep_connected(self) -> None:
        failures = 0
        lost_s = trio.current_time()
        while not self.is_closed:
            self.end = await self._connect()
            if self.end.is_by_renewal and (key := self._key_now()) is not None:
                self._key, self.end = key, self.end._replace(final=False)
            now_s = trio.current_time()
            self._is_away = not self.is_up
            if self.is_up:
                failures, lost_s = 0, now_s
                log.info("%s: %s", self._dialling.url, self.end.text)
            self._app.lost()
            self._give_up_perhaps(now_s - lost_s)
            self._changed()
            self._tried.set()
            self._said_goodbye.set()
            if self.end.final:
                return
            failures = self._failures_here(failures) + 1
            await self._pause(RETRY.pause_s(failures, self._dialling.random()))

    def _failures_here(self, failures: int) -> int:
        """Return how many failures in a row count: none if the network has changed since the last call."""
        if not self._moved.is_set():
            return failures
        self._moved = trio.Event()
        return 0

    async def _pause(self, pause_s: float) -> None:
        """Wait before the next attempt; a change of this machine's network ends the wait."""
        with trio.move_on_after(pause_s):
            await self._moved.wait()

    def _network_changed(self) -> None:
        self._moved.set()
        self._liveness.network_changed(trio.current_time())

    def _give_up_perhaps(self, away_s: float) -> None:
        if self.end.final:
            error = self.end.error()
            self._app.joins.end(error)
        elif away_s >= self._dialling.patience_s:
            said = f"the node has been away for {away_s:.0f} s ({self.end.text})"
            error = NodeUnavailable(
                f"{said}; whether it took the messages under way is not known here: its event log says"
            )
        else:
            return
        self._app.outbox.fail(error)

    async def _connect(self) -> End:
        how, until_s = self._dialling, trio.current_time() + SOCKET_S
        while True:
            try:
                stream = await self._dial()
                break
            except ConnectFailed as error:
                if error.has_answered or trio.current_time() >= until_s or not how.is_held():
                    return End(how.known_cause() or error.text)
            await trio.sleep(SOCKET_PAUSE_S)
        try:
            return await self._converse(stream)
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await stream.aclose()

    async def _dial(self) -> Stream:
        """Dial the node; also by the key that answers instead of the expected one. It may have followed that, which the
        node's hello must show. Raises `ConnectFailed`."""
        how = self._dialling
        try:
            return await dial(self._approach, how.url, self._key, how.expect, timeout_s=how.dial_s)
        except ConnectFailed as error:
            if error.answered_by is None:
                raise
            return await dial(self._approach, how.url, self._key, error.answered_by, timeout_s=how.dial_s)

    async def _converse(self, stream: Stream) -> End:
        session = Session(self._offer(), self._key, dialler=True, peer=stream.peer, expect=self._dialling.expect)
        self._app.begin(session)
        self._liveness = Liveness(trio.current_time())
        self.wake()
        end = End("the node closed the connection")
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, stream)
                nursery.start_soon(self._ask_for_groups)
                end = await self._read(stream, session) or end
                nursery.cancel_scope.cancel()
        except* StreamBroken as broken:
            end = End(f"the connection broke: {broken.exceptions[0]}")
        return end

    # -- writing -------------------------------------------------------------------------------------------

    async def _write(self, stream: Stream) -> None:
        try:
            await self._write_for_ever(stream)
        except StreamBroken:
            self._said_goodbye.set()
            await trio.sleep(CLOSE_S)  # anything the node sent before, perhaps why it closed, can still be read
            raise

    async def _write_for_ever(self, stream: Stream) -> None:
        while True:
            await self._to_write.wait()
            goodbye = self._goodbye
            parts = self._app.output(goodbye)
            if parts:
                await stream.send_parts((b"".join(parts),) if len(parts) > 1 else parts)
            if goodbye is not None:
                self._goodbye = None
                self._said_goodbye.set()
                return

    async def _ask_for_groups(self) -> None:
        """Send the JOINs and LEAVEs that are due: new ones at once, unanswered ones again."""
        while True:
            if self._app.ask(trio.current_time()):
                self.wake()
            with trio.move_on_after(ASK_AGAIN_S):
                await self._to_ask.wait()

    # -- reading -------------------------------------------------------------------------------------------

    async def _read(self, stream: Stream, session: Session) -> End | None:
        machine, state, began_s = session.machine, None, 0.0
        look_s = LOOK_S if stream.ip else LOCAL_LOOK_S
        while True:
            data = None
            if state is not machine.state:
                state, began_s = machine.state, trio.current_time()
            until_s = trio.current_time() + look_s if self.is_up else began_s + machine.timeout_s
            with trio.move_on_at(until_s):
                data = await stream.receive_some(READ_BYTES_MAX)
            if data:
                self._liveness.heard(trio.current_time())
                try:
                    end = self._app.receive(data, trio.current_time())
                except RemoteProtocolError as error:
                    await self._protest(error)
                    return End(f"the node broke the protocol: {error.text}", error.reason in FINAL)
                if self._app.is_known:
                    self._tried.set()
                if end is not None:
                    return end
            elif data is not None:
                return None
            elif not self.is_up:
                said = f"what listens there did not answer within {machine.timeout_s:g} s"
                return End(f"{said}: the node is stopped or held up, as its standard error says, or it is no router")
            elif (end := self._look(stream, session)) is not None:
                return end
            self.wake()

    def _look(self, stream: Stream, session: Session) -> End | None:
        """Ping a quiet node; return why the connection is given up, None if it is not."""
        owed = self._app.owed if stream.ip else None
        found = self._liveness.look(trio.current_time(), LIVENESS, stream.path, owed)
        if found is LinkCheck.PING:
            self._liveness.asked(trio.current_time())
            session.send(link_items.Ping(time.monotonic_ns()))
        return End(f"the connection is given up: {found.value}") if found.is_end else None

    async def _protest(self, error: RemoteProtocolError) -> None:
        """Send the node its fault, if it still reads."""
        self._said_goodbye = trio.Event()
        self._goodbye = error.reason, error.text
        self.wake()
        with trio.move_on_after(CLOSE_S):
            await self._said_goodbye.wait()
