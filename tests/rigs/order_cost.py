"""Measure the CPU time that causal order costs a receiving app for each message, in alternation with order of arrival.

    PYTHONPATH=tests python tests/rigs/order_cost.py [ROUNDS]

The app's end of a link without the link: inbox, readers, seals, settling. Five members talk, each message following the
newest ones its author has heard; one message in `SHUFFLED` comes after the next four.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time

import trio
from samples.apps import FAMILY

from rigs.router_end import later
from router.client.custody.causes import Causes, Heads
from router.client.custody.inbox import Inbox
from router.client.journal import Journal
from router.client.opening import Opener
from router.client.ordering import OpenedMessage, Order, Ordering
from router.client.readers import Nothing, Readers
from router.client.senders import GroupKeys
from router.client.settling import Settling
from router.client.state_writer import StateWriter
from router.core.link.session import MessageRun
from router.core.wire.application import seal
from router.core.wire.codec import frame, split_frames
from router.core.wire.crypto import SigningKey
from router.core.wire.message import message_id, seal_multicast
from router.disk.state.app_state import AppState

MESSAGES, READ, MEMBERS, BODY_BYTES, SHUFFLED = 2000, 32, 5, 256, 20
WINDOW = 1 << 16


def talk() -> list[bytes]:
    """Return the messages of five members, each of whom has heard all but the newest three messages of others."""
    chance = random.Random(1)
    members = [SigningKey(bytes((n + 1,)) * 32) for n in range(MEMBERS)]
    heads = [Heads() for _ in members]
    wires: list[bytes] = []
    on_the_way: list[tuple[int, bytes, tuple[object, ...]]] = []
    assert FAMILY.seed is not None
    group, until_min = SigningKey(FAMILY.seed), later()
    for number in range(MESSAGES):
        at = chance.randrange(MEMBERS)
        deps = heads[at].ids(0)
        body = seal(
            members[at], FAMILY.group, number, deps, bytes(BODY_BYTES), content_key=FAMILY.content_key,
            nonce=number.to_bytes(24, "big"),
        )  # fmt: skip
        wire = seal_multicast(group, body, ttl_s=60, expiry_min=until_min)
        heads[at].published(message_id(wire), until_min, deps)
        heads[at].kept(message_id(wire))
        on_the_way.append((at, wire, deps))
        if len(on_the_way) > 3:
            by, earlier, its = on_the_way.pop(0)
            for other in range(MEMBERS):
                if other != by:
                    heads[other].given(message_id(earlier), until_min, its)  # type: ignore[arg-type]
        wires.append(wire)
    return wires


def shuffled(wires: list[bytes]) -> list[bytes]:
    """Move one message in `SHUFFLED` behind the next four."""
    order = sorted(range(len(wires)), key=lambda at: at + (4.5 if at % SHUFFLED == 7 else 0))
    return [wires[at] for at in order]


def receive(wires: list[bytes], order: Order) -> float:
    """Return the CPU seconds that an app needs to receive all messages."""
    me = SigningKey(b"m" * 32)
    keys = GroupKeys(FAMILY.content_key, Causes())
    journal = Journal(None, StateWriter(AppState.memory(), time.time))
    inbox = Inbox(
        WINDOW,
        1 << 30,
        durable=True,
        known=journal.known,
        problem=print,
        wake_loops=lambda: None,
        wake_link=lambda: None,
    )
    settling = Settling(inbox, journal, lambda _: keys, time.time, list[str]().append)
    readers = Readers(
        inbox,
        settling,
        Opener(settling, lambda _: keys, journal.known, print, time.time, verify=False),
        Ordering(me.public, journal.known),
        lambda wanted: None,
        lambda *_: None,
        trio.lowlevel.ParkingLot(),
        time.time,
        time.monotonic,
    )
    inbox.begin(SigningKey(b"r" * 32).public)
    readers.ordering.choose(FAMILY.group, order, 30.0, is_sealed=True)
    reads = [b"".join(map(frame, wires[at : at + READ])) for at in range(0, len(wires), READ)]
    got = k = 0
    gc.collect()
    began_s = time.process_time()
    for data in reads:
        spans = split_frames(data)[0]
        inbox.take_in(MessageRun(k + 1, data, spans), 0.0)
        k += len(spans)
        while (found := readers.step(FAMILY.group)) is not Nothing.HERE:
            if isinstance(found, OpenedMessage):
                assert not found.received.missing
                readers.move_on(found.arrival)
                got += 1
    spent_s = time.process_time() - began_s
    assert got == len(wires) == inbox.settled
    return spent_s


def main(rounds: int) -> None:
    in_order = talk()
    for what, wires in (("in order", in_order), (f"one in {SHUFFLED} behind four others", shuffled(in_order))):
        arrival, causal, ratios = [], [], []
        for _ in range(rounds):
            first = receive(wires, "arrival")
            middle = receive(wires, "causal")
            last = receive(wires, "arrival")
            arrival += [first, last]
            causal.append(middle)
            ratios.append(middle / (first + last) * 2)
        least = [min(some) / len(wires) * 1e6 for some in (arrival, causal)]
        print(
            f"{what}: CPU a message {least[0]:.1f} µs in order of arrival, {least[1]:.1f} µs in causal order, the least"
        )
        print(
            f"  causal / arrival: {least[1] / least[0]:.3f} of the least, {statistics.median(ratios):.3f} in the median"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
