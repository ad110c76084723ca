"""The yardstick, and the full verification beside it: `python -m services.dmq.bench.yardstick FILE`.

Bare PyNaCl verifies the two signatures of each message, the cold key's and the KES leaf's, with all that leads to
keys and bytes done before. Full verification begins with the message's bytes and ends with its verdict, 16 messages at
a time as in a node that is busy: with certificates and KES paths that are new, and with those that are known. The three
are measured in turns, in one process on one core, by its CPU time; of several rounds the middle one counts. What stands
beside bare verification in a ratio is measured between two such measurements, since a machine that has other work to
do is slower for both.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from msgspec import Struct
from nacl.signing import VerifyKey

from router.actors.process import program
from services.dmq.bench import traffic
from services.dmq.core.admission import AT_ONCE_MAX
from services.dmq.core.messages.authentication import Authentication, Moment, Topic
from services.dmq.core.messages.kes import leaf_of, path_of
from services.dmq.core.messages.signatures import SignatureChecker
from services.dmq.core.messages.signed_message import Dmq05, forget_certificates
from services.dmq.core.stake.chain_time import NETWORKS
from services.dmq.core.stake.distribution import StakeSet

Measured = TypeVar("Measured")
ROUNDS = 9
MESSAGES_MAX = 300


class Yardstick(Struct, frozen=True):
    """Microseconds of CPU for one message: bare, and in full with certificates that are new and that are known."""

    bare_us: float
    new_us: float
    known_us: float


def run(path: Path) -> Yardstick:
    """Measure in a process of its own."""
    done = subprocess.run(program("services.dmq.bench.yardstick", str(path)), stdout=subprocess.PIPE, check=True)
    return Yardstick(*json.loads(done.stdout))


async def beside(path: Path, measure: Callable[[], Awaitable[Measured]]) -> tuple[Measured, float]:
    """Return what is measured, and the microseconds of bare verification, the mean of those before and after it."""
    before = run(path)
    found = await measure()
    return found, (before.bare_us + run(path).bare_us) / 2


def measure(path: Path) -> tuple[float, ...]:
    """Return the microseconds for one message of each of the three; each message is of a pool of its own."""
    wires = [wire for _, wire in zip(range(MESSAGES_MAX), traffic.read(path), strict=False)]
    messages = [Dmq05().read(wire) for wire in wires]
    pools = {one.certificate.pool: 1 for one in messages}
    moment = Moment(time.time(), time.monotonic())
    topic = Topic(pause_s=0.0, chain=NETWORKS[traffic.NETWORK])
    node = Authentication(topic, Dmq05(), StakeSet(pools, moment.wall_s))
    encoding, checker, pairs = Dmq05(), SignatureChecker(), []
    for one in messages:
        certificate, signed = one.certificate, one.signed
        evolution = (one.kes_period or 0) - certificate.start_period
        leaf = leaf_of(path_of(certificate.kes_key, evolution, one.kes_signature))
        assert leaf is not None
        cold, hot = VerifyKey(bytes(certificate.cold_key)), VerifyKey(bytes(leaf))
        pairs.append((cold, certificate.signed, bytes(certificate.signature), hot, signed, one.kes_signature[:64]))

    def bare() -> None:
        for cold, vouched, vouching, hot, signed, signing in pairs:
            cold.verify(vouched, vouching)
            hot.verify(signed, signing)

    def full() -> None:
        for at in range(0, len(wires), AT_ONCE_MAX):
            some = [encoding.read(wire) for wire in wires[at : at + AT_ONCE_MAX]]
            assert not any(node.judge(one, moment, is_known=False) for one in some)
            assert not any(checker.faults([node.signature_check(one, moment) for one in some]))

    gc.collect()  # as in a node that has settled in: what lasts is not looked at again
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    rounds = []
    for _ in range(ROUNDS):
        forget_certificates()
        checker = SignatureChecker()
        rounds.append([_cpu_us(act, len(wires)) for act in (bare, full, full)])
    return tuple(map(median, zip(*rounds, strict=True)))


def _cpu_us(act: Callable[[], None], count: int) -> float:
    began_s = time.process_time()
    act()
    return (time.process_time() - began_s) / count * 1e6


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
