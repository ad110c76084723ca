"""A round at a network of nodes: each message is handed in at one of them, and read by a consumer at each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio
from msgspec import Struct

from router.rig.process import HANG_S, RigFailed
from services.dmq.bench import traffic
from services.dmq.client.connection import connect
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.core.protocols.submission import MsgAcceptMessage

HAND_IN_CONNECTIONS = 16
MAGIC = MAGICS[traffic.NETWORK]


class RoundTimes(Struct):
    """Seconds from the first message handed in: until the last was answered, and until the last consumer had all."""

    answered_s: float = 0.0
    read_s: float = 0.0


async def play_round(wires: Sequence[bytes], at: Path, consumers: Mapping[str, Path]) -> RoundTimes:
    """Hand messages in at a socket, and read at others until each consumer has each message once; raise `RigFailed`."""
    waiting, times, began_s = deque(wires), RoundTimes(), trio.current_time()
    read: dict[str, Counter[bytes]] = {name: Counter() for name in consumers}

    async def hand_in() -> None:
        async with connect(at, MAGIC) as client:
            while waiting:
                answer = await client.submit(waiting.popleft())
                if not isinstance(answer, MsgAcceptMessage):
                    raise RigFailed(f"a message was not accepted: {answer}")
                times.answered_s = trio.current_time() - began_s

    async def consume(name: str, socket: Path) -> None:
        async with connect(socket, MAGIC) as client:
            while len(read[name]) < len(wires):
                read[name].update((await client.request(blocking=True)).messages)
            times.read_s = trio.current_time() - began_s
            read[name].update((await client.request(blocking=False)).messages)

    with trio.move_on_after(HANG_S) as hung:
        async with trio.open_nursery() as nursery:
            for name, socket in consumers.items():
                nursery.start_soon(consume, name, socket)
            for _ in range(HAND_IN_CONNECTIONS):
                nursery.start_soon(hand_in)
    if hung.cancelled_caught:
        few = {name: len(found) for name, found in read.items() if len(found) < len(wires)}
        raise RigFailed(f"of {len(wires)} messages some consumers have fewer after {HANG_S:g} s: {few}")
    check_once(read, wires)
    return times


def check_once(read: Mapping[str, Counter[bytes]], wires: Sequence[bytes]) -> None:
    """Raise `RigFailed` unless each reader has got each message once, and nothing else."""
    for name, found in read.items():
        if found != Counter(wires):
            raise RigFailed(f"{name} has read {found.total()} messages, {len(found)} different ones, of {len(wires)}")
