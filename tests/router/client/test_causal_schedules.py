"""Causal order through any schedule: real seals, inbox, readers and journal, driven without a clock or a connection.

The node of these tests hands messages over in any order, some twice, some only on request, within a window; the app
crashes at any time and comes back with its journal.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import trio
from hypothesis import given
from hypothesis import strategies as st
from samples.apps import FAMILY
from samples.histories import ANN, BOB, EVE, Talk

from router.client.custody.arrivals import Arrival
from router.client.custody.asks import MissingMessage
from router.client.custody.causes import Causes
from router.client.custody.inbox import Inbox
from router.client.journal import Journal
from router.client.opening import Opener
from router.client.ordering import OpenedMessage, Ordering
from router.client.readers import Nothing, Readers
from router.client.senders import GroupKeys
from router.client.settling import Settling
from router.client.state_writer import StateWriter
from router.core.link.session import MessageRun
from router.core.wire.codec import frame, split_frames
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.message import message_id
from router.disk.state.app_state import AppState

ME, ROUTER = SigningKey(b"m" * 32), SigningKey(b"r" * 32)
WINDOW = 4
WALL_S = 1_800_000_000.0
UNTIL_MIN = 3_800_000  # long after that


@dataclass
class Hub:
    """The messages that the node owes the app, and those that it gets only on request: through the queue, or as an
    answer."""

    owed: list[bytes]
    on_asking: dict[MessageId, bytes] = field(default_factory=dict)
    answers: list[bytes] = field(default_factory=list)
    carries: bool = True

    def pull(self, wanted: MissingMessage) -> None:
        id = wanted.id
        wire = self.on_asking.pop(id, None)
        if wire is not None and not self.carries:
            self.owed.append(wire)
        waiting = next((one for one in self.owed if message_id(one) == id), None)
        if (waiting is not None and self.carries) or (wire is not None and self.carries):
            self.answers.append(wire or waiting or b"")
            if wire is not None:
                self.owed.append(wire)


class App:
    """One run of an app: its end of the link without the link."""

    def __init__(self, hub: Hub, journal: Journal, writer: StateWriter) -> None:
        self.hub, self.now_s = hub, 0.0
        self.doubts: list[MessageId] = []
        self.causes = Causes(kept=journal.heads(FAMILY.group))
        keys = GroupKeys(FAMILY.content_key, self.causes)
        self.problems: list[str] = []
        self.journal, self.writer = journal, writer
        self.inbox = Inbox(
            WINDOW,
            1 << 20,
            durable=True,
            known=journal.known,
            problem=self.problems.append,
            wake_loops=lambda: None,
            wake_link=lambda: None,
        )
        settling = Settling(self.inbox, journal, lambda _: keys, lambda: WALL_S, list[str]().append)
        opener = Opener(settling, lambda _: keys, journal.known, self.problems.append, lambda: WALL_S, verify=False)
        self.readers = Readers(
            self.inbox,
            settling,
            opener,
            Ordering(ME.public, journal.known),
            hub.pull,
            self._judge,
            trio.lowlevel.ParkingLot(),
            lambda: WALL_S,
            lambda: self.now_s,
        )
        self.inbox.begin(ROUTER.public)
        self.readers.ordering.choose(FAMILY.group, "causal", 30.0, is_sealed=True)
        self.sent: list[bytes] = []
        self.handled: list[Arrival] = []

    def _judge(self, group: PublicKey, id: MessageId) -> None:
        self.doubts.append(id)

    def hear(self, most: int) -> bool:
        """Read at most that many messages that the window lets through; return whether there were any."""
        room = min(most, WINDOW - (self.inbox.received - self.inbox.settled))
        wires = self.hub.owed[len(self.sent) :][: max(0, room)]
        if wires:
            data = b"".join(map(frame, wires))
            self.inbox.take_in(MessageRun(len(self.sent) + 1, data, split_frames(data)[0]), WALL_S)
            self.sent += wires
        return bool(wires)

    def look(self) -> OpenedMessage | None:
        """Return the next message if one can be given now."""
        while self.hub.answers:
            self.readers.carried(self.hub.answers.pop(0))
        while self.doubts:
            id = self.doubts.pop(0)
            self.readers.judged(id, any(message_id(one) == id for one in self.hub.owed[self.inbox.settled :]))
        found = self.readers.step(FAMILY.group)
        while found is Nothing.YET:
            found = self.readers.step(FAMILY.group)
        return None if isinstance(found, Nothing) else found

    def handle(self, one: Arrival) -> None:
        self.readers.move_on(one)
        self.handled.append(one)

    def commit(self) -> None:
        """Let the journal write waiting rows, and settle messages at the node."""
        self.journal.keep_heads(FAMILY.group, self.causes.heads.lasting)
        batch, then = self.writer.take()
        self.writer.state.commit(batch, self.writer.now_min)
        for act in then:
            act()

    def crash(self) -> None:
        """Lose everything that is not on disk; the node continues with the messages it does not know to be settled."""
        self.writer.take()
        del self.hub.owed[: self.inbox.settled]
        self.hub.answers.clear()

    @property
    def wake_s(self) -> float:
        return self.readers.ordering.wake_s(FAMILY.group, is_full=self.inbox.is_full)


@st.composite
def talks(draw: st.DrawFn) -> tuple[Talk, dict[str, tuple[str, ...]]]:
    """Return the messages of three members, each following the heads its author has read, and the causes of each."""
    talk, causes, past = Talk(), dict[str, tuple[str, ...]](), dict[str, set[str]]()
    heard: dict[bytes, set[str]] = {}
    for number in range(draw(st.integers(2, 9))):
        by = draw(st.sampled_from((ANN, BOB, EVE)))
        mine = heard.setdefault(by.public, set())
        if causes:
            for one in draw(st.lists(st.sampled_from(sorted(causes)), max_size=3)):
                mine |= {one} | past[one]
        heads = tuple(sorted(one for one in mine if not any(one in past[other] for other in mine)))
        name = f"{number}"
        talk.say(name, *heads, by=by, until_min=UNTIL_MIN)
        causes[name], past[name] = heads, set(mine)
        mine.add(name)
    return talk, causes


@given(talks(), st.data())
def test_any_schedule_with_crashes(said: tuple[Talk, dict[str, tuple[str, ...]]], data: st.DataObject) -> None:
    """All messages are given; no effect comes before its cause unless marked; only those that no commit had reached
    come again."""
    talk, causes = said
    order = data.draw(st.permutations(sorted(causes)))
    slow = data.draw(st.sets(st.sampled_from(order), max_size=2))
    twice = data.draw(st.lists(st.sampled_from(order), max_size=2))
    hub = Hub([talk.wires[name] for name in (*order, *twice) if name not in slow], carries=data.draw(st.booleans()))
    hub.on_asking = {talk.id(name): talk.wires[name] for name in slow}
    given_names: list[str] = []
    missing: list[tuple[MessageId, ...]] = []
    committed: set[str] = set()
    crashes = data.draw(st.lists(st.integers(0, 12), max_size=2))
    with tempfile.TemporaryDirectory() as folder:
        writer = StateWriter(AppState(Path(folder) / "state"), lambda: WALL_S)
        journal = Journal(Path(folder) / "journal", writer)
        journal.open()
        app, in_run = App(hub, journal, writer), list[str]()
        for step in range(10_000):
            if step in crashes:
                app.crash()
                app, in_run = App(hub, journal, writer), []
            has_come = app.hear(data.draw(st.integers(1, 3)) if step < 12 else WINDOW)
            found = app.look()
            if found is not None:
                name = found.received.body.decode()
                assert name not in committed and name not in in_run
                given_names.append(name)
                in_run.append(name)
                missing.append(found.received.missing)
                app.handle(found.arrival)
            if step >= 12 or data.draw(st.booleans()):
                app.commit()
                committed |= set(in_run)
            if found is None and not has_come and not hub.answers:
                app.commit()
                if app.wake_s == math.inf and len(app.sent) == len(hub.owed):
                    break
                app.now_s = max(app.now_s, min(app.wake_s, app.now_s + 30))
        else:
            raise AssertionError("it never came to rest")
        journal.close()
        writer.state.close()
    expected = set(causes) - {name for name in slow if talk.id(name) in hub.on_asking}
    assert set(given_names) == expected and app.inbox.settled == app.inbox.received
    for at, (name, lacks) in enumerate(zip(given_names, missing, strict=True)):
        before = set(given_names[:at])
        for cause in causes[name]:
            assert cause in before or talk.id(cause) in lacks, f"{name} came before {cause} without a word"
