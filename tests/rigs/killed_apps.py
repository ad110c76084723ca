"""Kill a process in which two apps of one home write to each other and to a group, before any of its steps.

`python -m rigs.killed_apps DIRECTORY KILLS SEED` does it so often. Each round goes on with the home that the last
one has left, days later, and its router hands over again what has not expired. Then the home is looked at: nothing that
was handled is shown again, heads and handled ids are of one moment, no sequence number is used twice, and whatever is
sealed to a prekey that has not ended can be opened.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import trio

from rigs.killed_state import forked, kill_at, nothing
from rigs.patience import HANG_S
from rigs.router_end import RouterEnd, RouterLink
from router.client.journal import Journal
from router.client.node import Node
from router.client.options import Settings, state_of
from router.client.sealing.correspondents import Verdict
from router.client.sealing.rows import PrekeyRows
from router.client.sealing.unicast_sealing import UnicastSealing
from router.client.state_writer import StateWriter
from router.core.wire.application import content_key_id, unseal
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.grouplink import new_group
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import Multicast, message_id, open_message
from router.core.wire.unicast_seal import BEGINS
from router.settings import keyring
from router.settings.home import Home
from router.transport.contract import Stream

KEY = b"k" * 32
GROUP = new_group(b"g" * 32, KEY, "family")
ALICE, BOB = "alice", "bob"
EXCHANGES, DAYS_EACH, LIFE_MIN = 2, 1.5, 30 * 1440
"""A round has so many exchanges, each so many days after the one before."""
STEPS = 75
"""A round is killed before one of so many steps, which nearly each has."""
TAKEN, SETTLED, SHOWN, HANDLED, PROBLEM = b"t", b"x", b"s", b"h", b"p"
_RECORD = 5

Say = Callable[[bytes, bytes], None]


def moved_s(days: float) -> float:
    return time.time() + days * 86_400


# -- the process that is killed ------------------------------------------------------------------------------


class RecordedEnd(RouterEnd):
    """A router that reports each message that it takes, before its app hears of it, and each that is settled."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self.say = say

    async def _serve(self, stream: Stream) -> None:
        await RecordedLink(self, stream).run()

    def owe(self, recipient: PublicKey, wire: bytes) -> None:
        self.say(TAKEN, recipient + wire)
        super().owe(recipient, wire)


class RecordedLink(RouterLink):
    def _hear_settled(self, n: int) -> None:
        queue = self.router.queues.get(self.app)
        before = [] if queue is None else [*queue.wires]
        super()._hear_settled(n)
        assert isinstance(self.router, RecordedEnd)
        for wire in before[: len(before) - (0 if queue is None else len(queue.wires))]:
            self.router.say(SETTLED, message_id(wire))


async def exchange(home: Home, days: float, owed: list[tuple[PublicKey, bytes]], say: Say) -> None:
    """Let both apps write to each other and to the group, and report what is shown to each and handled by it."""
    end, at_days, handled, lot = RecordedEnd(say), [days], set[MessageId](), trio.lowlevel.ParkingLot()

    def app(name: str) -> Node:
        return Node(
            Settings(
                url=end.url,
                home=home,
                as_name=name,
                journal=home.path / f"{name}.journal",
                wall_s=lambda: moved_s(at_days[0]),
                on_problem=lambda said: say(PROBLEM, said.encode()),
            )
        )

    async def read(node: Node) -> None:
        async for message in node:
            say(SHOWN, message.id)
            await message.settle()
            say(HANDLED, message.id)
            handled.add(message.id)
            lot.unpark_all()

    with trio.fail_after(HANG_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(end.run)
            for recipient, wire in owed:
                RouterEnd.owe(end, recipient, wire)
            async with app(ALICE) as alice, app(BOB) as bob, trio.open_nursery() as readers:
                await bob.join(GROUP)
                readers.start_soon(read, alice)
                readers.start_soon(read, bob)
                for number in range(EXCHANGES):
                    body, sent = b"%d" % number, set[MessageId]()
                    sent.add(await alice.send(bob.key, body, expiry_min=LIFE_MIN))
                    sent.add(await alice.group(GROUP).publish(body, expiry_min=LIFE_MIN))
                    sent.add(await bob.send(alice.key, body, expiry_min=LIFE_MIN))
                    while not sent <= handled:
                        await lot.park()
                    at_days[0] += DAYS_EACH
                readers.cancel_scope.cancel()
            end.stop()


# -- what it leaves -----------------------------------------------------------------------------------------


class Rounds:
    """The rounds so far: what the router has taken, in order, and what the apps have handled."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path)
        self.home.create("edge")
        self.number = 0
        self._taken: dict[MessageId, tuple[PublicKey, bytes]] = {}
        self._handled = set[bytes]()

    @property
    def days(self) -> float:
        return self.number * EXCHANGES * DAYS_EACH

    def _waits(self) -> dict[MessageId, tuple[PublicKey, bytes]]:
        """Return what the router may hand over now: what an app has handled and settled, too, as if the router had
        forgotten that, but no requests for prekeys, and answers, that were."""
        now_min = expiry_min(moved_s(self.days))
        return {
            id: (to, wire)
            for id, (to, wire) in self._taken.items()
            if open_message(wire).expiry_min > now_min and (id not in self._handled or _is_said(wire))
        }

    def run(self, step: int) -> bool:
        """Run a round that is killed before a step, and look at what is left; return whether it was killed."""

        def work(out: int) -> None:
            def say(what: bytes, content: bytes) -> None:
                os.writev(out, [what + len(content).to_bytes(_RECORD - 1, "big") + content])  # which is no step

            kill_at(step)
            trio.run(exchange, self.home, self.days, [*self._waits().values()], say)

        was_killed, said = forked(work, nothing)
        self._hear(said)
        self.number += 1
        self.check()
        return was_killed

    def _hear(self, said: bytes) -> None:
        while said:
            end = _RECORD + int.from_bytes(said[1:_RECORD], "big")
            what, content, said = said[:1], said[_RECORD:end], said[end:]
            if what == TAKEN:
                self._taken[message_id(content[32:])] = PublicKey(content[:32]), content[32:]
            elif what == SHOWN:
                assert content not in self._handled, "what was handled is shown again"
            elif what == PROBLEM:  # a kill may forget that a prekey was asked for: then it is asked for again
                assert content.decode().endswith(Verdict.NOT_ASKED.value), content
            else:
                self._handled.add(content)

    def check(self) -> None:
        """Look at a copy of the home, so that the next round finds it as it was left."""
        copy = Home(Path(shutil.copytree(self.home.path, self.home.path.with_name("copy"))))
        numbers: dict[tuple[PublicKey, PublicKey, int], MessageId] = {}
        for name in (ALICE, BOB):
            if (copy.path / "keys" / f"{name}.key").exists():
                self._check_app(copy, name, numbers)
        shutil.rmtree(copy.path)

    def _check_app(self, home: Home, name: str, numbers: dict[tuple[PublicKey, PublicKey, int], MessageId]) -> None:
        state, now_min, key = state_of(home, name), expiry_min(moved_s(self.days)), keyring.load(home, name)
        journal = Journal(home.path / f"{name}.journal", StateWriter(state, lambda: moved_s(self.days)))
        journal.open()
        machine = UnicastSealing(key, PrekeyRows(state, state.commit), os.urandom)
        waits = {id: wire for id, (to, wire) in self._waits().items() if to == key.public}
        known = journal.known([*waits])
        assert self._handled.intersection(waits) <= set(known), "what was handled is not remembered"
        said = list[MessageId]()
        for id, wire in waits.items():
            message = open_message(wire)
            if isinstance(message, Multicast):
                said.append(id)
                continue
            if message.body.startswith(BEGINS):
                seq = machine.open(message.body, message.source, now_min).message.seq
                assert numbers.setdefault((message.source, key.public, seq), id) == id, "a number is used twice"
        heads = {id for id, end_min in journal.heads(GROUP.group) if end_min > now_min}
        assert heads <= set(known) and heads.issuperset([id for id in said if id in known][-1:]), "of two moments"
        journal._let_go()
        state.close()

    def check_numbers(self) -> None:
        """Look at the sequence numbers in the group, and at what is lost, once a round was not killed."""
        keys = {content_key_id(KEY): KEY}
        taken = [open_message(wire) for _, wire in self._taken.values()]
        said = [unseal(one.body, one.group, keys).seq for one in taken if isinstance(one, Multicast)]
        assert said == sorted(set(said)), "a number is used twice, or goes back"
        lost = [id for id, (_, wire) in self._waits().items() if _is_said(wire) and id not in self._handled]
        assert not lost, "what a router had in custody is lost"


def _is_said(wire: bytes) -> bool:
    message = open_message(wire)
    return isinstance(message, Multicast) or message.body.startswith(BEGINS)


def kill(path: Path, kills: int, seed: int) -> str:
    """Kill so many rounds, and let a last one come to its end; return a sentence on it."""
    chance, found, killed = Random(seed), Rounds(path), 0
    while killed < kills:
        killed += found.run(chance.randint(1, STEPS))
    assert not found.run(sys.maxsize), "the last round comes to its end"
    found.check_numbers()
    return f"{killed} kills in {found.number} rounds, and the home was whole after each"


if __name__ == "__main__":
    print(kill(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
