"""An app of the fleet: `python -m router.chaos.app HOME NODE GROUP LEDGER PER_S LIFE_MIN`.

It reads the group in causal order, publishes about PER_S messages a second, most of which live for LIFE_MIN minutes,
until a line comes on standard input, and writes down in the file LEDGER, a line of JSON each, what it tries, what its
node took custody of, and what it is shown, before it settles that. It may be killed at any moment and started again.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import msgspec
import trio

import router
from router.chaos.ledger import AppAccount, LedgerEntry, RefusedEntry, ShownEntry, TakenEntry, TriedEntry, next_number
from router.rig.process import HANG_S

APP = "chaos"
LIFE_MIN, SHORT_LIFE_MIN = 1440, 1
SHORT_EVERY = 20
"""Each of so many messages lives for `SHORT_LIFE_MIN` minutes only."""
BYTES = (0, 100, 3000)
"""Bytes that a body has besides its number, by chance one of these."""
PAUSE_S = 0.2
"""The pause after a refusal."""

_encode = msgspec.json.Encoder().encode


class AppLedger:
    """The file of one app's account. A line is written by one call, which a kill does not undo."""

    def __init__(self, path: Path) -> None:
        self.account = AppAccount()
        for line in read_lines(path.read_bytes() if path.exists() else b""):
            self.account.enter(line)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: LedgerEntry) -> None:
        os.write(self._file, _encode(line) + b"\n")
        self.account.enter(line)


_decoder = msgspec.json.Decoder(LedgerEntry)


def read_lines(data: bytes) -> list[LedgerEntry]:
    """Return the whole lines of an app's file."""
    return [_decoder.decode(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


async def talk(home: str, own: str, name: str, path: Path, per_s: float, life_min: int) -> None:
    ledger = AppLedger(path)
    connected = router.connect(
        home=home, as_name=APP, when_down="queue", patience_s=HANG_S, journal=path.with_suffix(".journal")
    )
    async with connected as node, trio.open_nursery() as nursery:
        group = await node.join(name, order="causal")
        nursery.start_soon(_read, group, ledger)
        print("ready", flush=True)
        with trio.CancelScope() as publishing:
            nursery.start_soon(_stop_at_a_line, publishing)
            for number in next_number(ledger.account):
                await trio.sleep(random.expovariate(per_s))
                await _publish(group, own, number, ledger, life_min if number % SHORT_EVERY else SHORT_LIFE_MIN)


async def _publish(group: router.Group, own: str, number: int, ledger: AppLedger, life_min: int) -> None:
    body = json.dumps({"by": own, "n": number, "more": "x" * random.choice(BYTES)}).encode()
    ledger.write(TriedEntry(number))
    try:
        with trio.CancelScope(shield=True):  # what was handed in is waited for, so that the ledger has its end
            id = await group.publish(body, expiry_min=life_min)
    except router.Refused as refused:
        ledger.write(RefusedEntry(number, refused.reason.word))
        await trio.sleep(PAUSE_S)
        return
    now_s = time.time()
    ledger.write(TakenEntry(number, id.hex(), now_s, now_s + 60 * life_min))


async def _read(group: router.Group, ledger: AppLedger) -> None:
    async for message in group:
        said = json.loads(message.body)
        line = ShownEntry(said["by"], said["n"], message.id.hex(), time.time(), message.redelivered, message.late)
        ledger.write(line)


async def _stop_at_a_line(publishing: trio.CancelScope) -> None:
    await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    publishing.cancel()


if __name__ == "__main__":
    home, own, name, path, per_s, life_min = sys.argv[1:]
    trio.run(talk, home, own, name, Path(path), float(per_s), int(life_min))
