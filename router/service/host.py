"""Services as actors over a link of their own, the same in the node's process and in another.

    class Echo(Service):
        async def on_message(self, message: Received) -> None:
            if message.source is not None:
                await self.node.send(message.source, message.body)

The node runs it when its configuration names it (`services = ["services.echo"]`), over the memory transport; `run` runs
it in a process of its own, over the node's Unix socket. Either way it has a key, signs its messages, and gets those
addressed to it; if it fails it is started again, and messages that it had not settled come again. A message on which it
fails `attempts_max` times is refused, and the next one is handled.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from math import inf
from types import TracebackType
from typing import Any

import msgspec
import trio
from msgspec import Struct, field

from router.actors.actor import TrioActor, as_failure
from router.client.errors import ClientError, NodeUnavailable, Refused
from router.client.node import Node
from router.client.options import Settings as ClientSettings
from router.client.received import Received
from router.core.service.back_off import BackOff
from router.core.wire.admin import Inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.errors import CAUSE_CHARS_MAX, RouterError, cause_of
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import Reason
from router.core.wire.text import SUBJECT, key_text, printable, short
from router.disk.commit_speed import CommitSpeed
from router.disk.state.environment import StateError
from router.disk.state.service_state import EVENTS_MAX, Batch, State
from router.service.attempts import Attempts, FailuresInARow
from router.service.contract import Forget, LogEvent, Put
from router.service.deed_checks import EVENT_BYTES_MAX, check_put, event_of, fault_of
from router.service.scratch_file import ScratchFile
from router.service.verbs.answer import LOOK_AT_GROUPS, Answer, Asked
from router.service.verbs.log_event import LogEvents
from router.service.verbs.verb import Request, news_of
from router.settings.config import Config
from router.settings.home import Home

STATES = "services"
EVENTS_BYTES_MAX = 48 * 1024
LOG_AGAIN_S = 1.0
"""How long a service waits before it offers events again that the log did not take."""
GATHER_S, GATHER_S_MAX = 0.2, 1.0
"""How long events gather after some were handed to the log: each hand-over costs as much as dozens of them. While there
are always new ones, they gather twice as long each time, at most so long."""
FILL_SHARE, FULL_SHARE = 0.75, 0.9
"""How full a hand-over is to be, as a share of `EVENTS_BYTES_MAX`, and from when on more events may wait behind it."""
FORGET_S = 1.0
"""How long events that the log has wait in the state for a transaction to go with."""

log = logging.getLogger(__name__)


class Place(Struct, frozen=True):
    """Where a service runs: its name, the node's URL and home, its key and settings. `options`: its settings as
    written. `guests`: the URL at which the node takes streams that services hand over. `events`: those declared in its
    folder. `leave_free_bytes`: the disk space that its state leaves free. `is_inside`: whether it runs in the node's
    process. `pauses`: those before something on which it failed is tried again. `in_a_row`: such failures, over all its
    lives. `find_over_http`: returns the node's other services that answer over HTTP. `node_name`: `node.name`."""

    name: str
    url: str
    key: SigningKey
    home: Home
    settings: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    guests: str = ""
    on_warning: Callable[[str], None] = lambda text: None
    on_mended: Callable[[str], None] = lambda text: None
    attempts: Attempts = field(default_factory=lambda: Attempts(Config().node.service_attempts_max))
    events: frozenset[str] = frozenset()
    leave_free_bytes: int = 0
    is_inside: bool = False
    on_open: Callable[[], None] = lambda: None
    pauses: BackOff = BackOff(Config().node.service_restart_s_min, Config().node.service_restart_s_max)
    in_a_row: FailuresInARow = field(default_factory=FailuresInARow)
    find_over_http: Callable[[], Sequence[Any]] = tuple
    node_name: str = ""

    @property
    def state_path(self) -> Any:
        """Return the folder of its durable state."""
        return self.home.path / STATES / self.name


class Service(TrioActor):
    """The base class of services: override `on_message`. `settings`: its `Settings`; `state`: the values it keeps."""

    node: Node
    hears_outcomes = False
    elsewhere = "let it do that work in a thread or another process"

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.address = place.key.public
        self.name = place.name
        self.settings = place.settings
        self.options = place.options
        self.place = place
        self.log = logging.LoggerAdapter(log, {SUBJECT: place.name})
        """The log of the process; lines that are repeated are left out for each service by itself."""
        self._attempts = place.attempts
        self._in_hand: Received | None = None
        self._state: State | None = None
        self._writing = trio.Lock()
        self._speed = CommitSpeed()
        self._events_wait = trio.Event()
        self._events_held_up = ""
        self._noted = 0
        self._done_with = 0

    def __str__(self) -> str:
        return f"the service {self.name}"

    @property
    def remedy(self) -> str:
        """Return what to do when it holds up its process."""
        return self.elsewhere + (", or run it apart" if self.place.is_inside else "")

    @property
    def state(self) -> State:
        """Return the values that this service keeps, as of the last commit; `keep` changes them."""
        if self._state is None:
            self._state = State(self.place.state_path, self.place.leave_free_bytes)
            self.nursery.start_soon(self._hand_over_events)
        return self._state

    def on_start(self) -> None:
        self.nursery.start_soon(self._serve)

    def on_stop(self) -> None:
        self._close()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Count a failure outside of `on_message`, as in a task of `nursery`, against the message being handled."""
        self._close()
        if self._in_hand is not None and not isinstance(exception_value, StateError):
            self._attempts.fail(self._in_hand.id)

    def _close(self) -> None:
        if self._state is not None:
            with suppress(StateError):  # what stays is offered again, and the log takes nothing twice
                if self._done_with:
                    self._state.commit(Batch(noted=self._noted), expiry_min(time.time()))
            self._state.close()

    @trio.lowlevel.enable_ki_protection  # so a Ctrl-C goes to trio's main task: what comes from here is the service's
    async def _serve(self) -> None:
        place = self.place
        async with (
            Node(
                ClientSettings(
                    url=place.url,
                    key=place.key,
                    home=place.home,
                    when_down="queue",
                    outcomes=self.hears_outcomes,
                    on_problem=lambda said: self.log.warning("%s: %s", self, said),
                    seals=False,  # what it says within the node stays there, and strangers are told so
                )
            ) as self.node,
            trio.open_nursery() as self.nursery,
        ):  # whose tasks end before the connection is left
            if place.state_path.exists():
                self.state  # noqa: B018  # what was handled before does not come again
            await self.live()

    async def live(self) -> None:
        """Run the service as long as the connection lasts."""
        self.nursery.start_soon(self._answer_questions)
        await _as_failure(self.on_connected())
        async for message in self.node:
            if self._attempts.are_used_up(message.id):
                await self.give_up(message)  # that this was said before may have been lost with its connection
            elif self._state is None or not self._state.has_heard(message.id):
                await self._attempt(message)

    async def _answer_questions(self) -> None:
        """Answer operators at once that such a service has nothing to say."""
        async for inquiry in self.node.words:
            if isinstance(inquiry, Inquiry) and isinstance(asked := news_of(inquiry), Asked):
                value = {} if asked.word == LOOK_AT_GROUPS else {"error": f"{self} answers no questions"}
                with suppress(ClientError, SaidError):
                    await self.begin_asking(Answer(asked.number, value))

    async def _attempt(self, message: Received) -> None:
        self._in_hand = message
        try:
            await _as_failure(self.on_message(message))
        except Refused as refusal:  # what it sent in answer is refused, which is an outcome; the next message follows
            self.log.warning("%s: %s", self, refusal)
        except NodeUnavailable:
            self._in_hand = None  # which is not the message's fault
            raise
        except Exception as error:
            self._in_hand = None
            if not await self.failed_on(message, error):
                raise
            return
        self._in_hand = None
        self._attempts.end(message.id)

    async def failed_on(self, message: Received, error: Exception) -> bool:
        """Count the failure; return whether it was the last one allowed, so that the message is refused."""
        if isinstance(error, StateError):
            return False  # which is not the message's fault
        self._attempts.fail(message.id)
        if not self._attempts.are_used_up(message.id):
            return False
        which, most = short(key_text("msg", message.id)), self._attempts.most
        said = f"failed {most} times on message {which}, the last time: {cause_of(error)}; it is refused"
        self.log.error("%s %s, and the next one is handled", self, said, exc_info=error)
        self.place.on_warning(f"it {said}")
        await self.give_up(message)
        return True

    async def give_up(self, message: Received) -> None:
        """Refuse a message on which the service has failed too often."""
        await message.refuse(Reason.PEER_REFUSED, f"the service failed on it {self._attempts.most} times")
        self._attempts.end(message.id)

    # -- what lasts ----------------------------------------------------------------------------------------

    async def keep(self, *deeds: Put | Forget | LogEvent) -> None:
        """Keep values, forget secrets and note events in one transaction; in `on_message`, together with the fact that
        the message was handled, so that it does not come again after a crash. Raises `StateError`, `WrongDeed`."""
        batch = Batch()
        for deed in deeds:
            if isinstance(deed, Put):
                check_put(deed)
                batch.put(deed.key, deed.value, secret=deed.secret)
            elif isinstance(deed, Forget):
                batch.forgets = True
            else:
                batch.events.append(event_of(deed, self.place.events))
        if self._in_hand is not None:
            batch.heard.append((self._in_hand.id, self._in_hand.expiry_min))
        await self.commit(batch)

    async def commit(self, batch: Batch) -> list[int]:
        """Write a batch to the state; wait while too many events wait for the node's log."""
        state = self.state
        said = ""
        while batch.events and state.events_waiting - self._done_with >= EVENTS_MAX:
            why = self._events_held_up or "it notes more than the log takes of one service; let it note fewer"
            if why != said:
                self.warn(f"{EVENTS_MAX} events wait for the node's log, so the service is stopped meanwhile: {why}")
            said = why
            await trio.sleep(LOG_AGAIN_S)
        async with self._writing:
            batch.noted, done_with = self._noted, self._done_with
            if self._speed.is_quick and batch.is_small:
                numbers = self._commit_timed(batch)
            else:
                numbers = await trio.to_thread.run_sync(self._commit_timed, batch)
            self._done_with -= done_with
        if batch.events:
            self._events_wait.set()
        return numbers

    def _commit_timed(self, batch: Batch) -> list[int]:
        """Commit, and remember how long that took; in the loop or in a thread."""
        began_s = time.perf_counter()
        numbers = self.state.commit(batch, expiry_min(time.time()))
        self._speed.observe(began_s, time.perf_counter())
        return numbers

    def scratch(self) -> ScratchFile:
        """Return a new file beside its state for what takes much memory, which is made when something is written."""
        return ScratchFile(self.place.state_path, self.place.leave_free_bytes, self.warn)

    def warn(self, text: str) -> None:
        """Tell the operator, in the log of the process and in `router status`; of what cannot be printed, a space."""
        text = printable(text)[:CAUSE_CHARS_MAX]
        self.log.warning("%s: %s", self, text)
        self.place.on_warning(text)

    def mended(self, text: str) -> None:
        """Let `router status` show a warning no longer, if it is still the last one; "" is none."""
        if text:
            self.place.on_mended(printable(text)[:CAUSE_CHARS_MAX])

    async def _hand_over_events(self) -> None:
        """Hand events to the node's log, in order. They leave the state, when the log has them, with its next
        transaction, or with one of their own if there is none for a while."""
        state = self._state
        assert state is not None
        gather_s = GATHER_S
        while True:
            first, events = state.events(EVENTS_BYTES_MAX, self._noted)
            if not events:
                await self._until_events()
                gather_s = GATHER_S
                continue
            faults = [self._fault_of(state, number, one) for number, one in enumerate(events, first)]
            fit = next((at for at, fault in enumerate(faults) if fault), len(faults))
            if fit:
                last = await self._note(state, first, events[:fit])
            else:
                last = self._leave_out(first, events, faults)
            if last >= first:
                self._noted, self._done_with = last, self._done_with + last + 1 - first
            await trio.sleep(gather_s if last >= first + fit - 1 else LOG_AGAIN_S)
            gather_s = next_gather_s(gather_s, sum(map(len, events)))

    async def _until_events(self) -> None:
        """Wait until there are new events; meanwhile, remove those that the log has."""
        with trio.move_on_after(FORGET_S if self._done_with else inf):
            await self._events_wait.wait()
            self._events_wait = trio.Event()
            return
        await self.commit(Batch(noted=self._noted))

    def _fault_of(self, state: State, number: int, event: bytes) -> str:
        """Return why the log would not take an event, which a former version of the service may have kept."""
        return "" if number >= state.judged_from else fault_of(msgspec.json.decode(event), self.place.events)

    async def _note(self, state: State, first: int, events: list[bytes]) -> int:
        """Offer these events to the node's log; the number of the last one that it has."""
        argument = LogEvents.of_kept(state.epoch.hex(), first, events)
        try:
            answer = json.loads(await self.node.ask(LogEvents.WORD, argument))
        except NodeUnavailable:
            self._events_held_up = "the node is away"
            return 0
        except ClientError as error:
            return self._not_noted(str(error))
        if "error" in answer:
            return self._not_noted(str(answer["error"]))
        self._events_held_up = ""
        return int(answer["noted"])

    def _not_noted(self, why: str) -> int:
        self._events_held_up = why
        self.warn(f"its events wait for the node's log: {why}")
        return 0

    def _leave_out(self, first: int, events: list[bytes], faults: list[str]) -> int:
        """Leave out events that an earlier version of the service kept and the log does not take.

        Each is written to this process's log; return the number of the last one.
        """
        left_out = [one for one, _ in takewhile(lambda pair: pair[1], zip(events, faults, strict=True))]
        for one in left_out:
            self.log.warning("%s: not in the node's log: %s", self, one[:EVENT_BYTES_MAX].decode(errors="replace"))
        of_them = "an event" if len(left_out) == 1 else f"{len(left_out)} events"
        self.warn(f"an earlier version of it kept {of_them} that the node's log does not take: {faults[0]}")
        return first + len(left_out) - 1

    async def begin_asking(self, request: Request) -> Callable[[], Awaitable[dict[str, Any]]]:
        """Send a request to the own router behind those before it; return what waits for its answer.

        Both raise `SaidError`, `Refused`, `NodeUnavailable`, `NotAnswered`."""
        ended = await self.node.begin_asking(request.WORD, request.to_argument())

        async def answer() -> dict[str, Any]:
            return _said(await ended())

        return answer

    # -- to be filled in -----------------------------------------------------------------------------------

    async def on_connected(self) -> None:
        """Join groups, start tasks in `self.nursery`."""

    async def on_message(self, message: Received) -> None:
        """Handle a unicast to this service, or a message of a group it joined. It is settled when this returns.

        A `Refused` raised here is logged, and the message counts as handled. Any other exception restarts the service,
        and the message comes again, until its attempts are used up and it is refused. The same holds for `sys.exit()`,
        also in a task of `self.nursery`, and for a `KeyboardInterrupt`: a service does not end the node.
        """


class SaidError(RouterError):
    """The router refuses a service's request; the text says why."""


def _said(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)
    if "error" in found:
        raise SaidError(str(found["error"]))
    return found


def next_gather_s(gather_s: float, handed_bytes: int) -> float:
    """Return for how long events gather after the next hand-over, if there is no pause before it: twice as long as
    after this one, but not so long that at the same rate the next one could not take all of them."""
    share = handed_bytes / EVENTS_BYTES_MAX
    if share > FULL_SHARE:
        return GATHER_S  # more may wait already
    fits_s = gather_s * FILL_SHARE / share if share else inf
    return max(GATHER_S, min(2 * gather_s, fits_s, GATHER_S_MAX))


async def _as_failure(own: Awaitable[None]) -> None:
    """Run the service's own code; `sys.exit()` and `KeyboardInterrupt` there make it fail, and end nothing else."""
    try:
        await own
    except Exception:
        raise
    except trio.Cancelled:
        raise
    except BaseException as error:
        failure = as_failure(error, KeyboardInterrupt)
        raise failure from failure.__cause__
