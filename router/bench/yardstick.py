"""The yardstick: bare `VerifyKey.verify` of PyNaCl over the same messages, on one core and on two."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct
from nacl.signing import VerifyKey

from router.actors.process import program
from router.bench.traffic import Traffic
from router.core.wire.crypto import SigningKey


class Yardstick(Struct, frozen=True):
    """Verifications a second on one core and on `cores`, and microseconds of CPU for one."""

    one_core_per_s: float
    two_core_per_s: float
    cpu_us: float


def measure(path: str, group_seed: str, frame_bytes: int, seconds: float) -> tuple[float, float]:
    """Verify the file's messages repeatedly; return (verifications a second, CPU microseconds each)."""
    key = VerifyKey(bytes(SigningKey(bytes.fromhex(group_seed)).public))
    with Path(path).open("rb") as file:
        data = file.read(frame_bytes * 500)
    head = 3 if frame_bytes < 1 << 16 else 5
    pairs = []
    for at in range(0, len(data), frame_bytes):
        wire = data[at + head : at + frame_bytes]
        pairs.append((wire[1:-66], wire[-64:]))
    verify, count = key.verify, 0
    began, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        for message, signature in pairs:
            verify(message, signature)
        count += len(pairs)
    return count / (time.perf_counter() - began), (time.process_time() - cpu) / count * 1e6


def run(signed: Traffic, seconds: float) -> Yardstick:
    """Measure one process alone, then two side by side."""
    ones, twos = _processes(1, signed, seconds), _processes(2, signed, seconds)
    return Yardstick(ones[0][0], sum(rate for rate, _ in twos), ones[0][1])


def _processes(count: int, signed: Traffic, seconds: float) -> list[tuple[float, float]]:
    words = (str(signed.path), signed.group_seed.hex(), str(signed.frame_bytes), str(seconds))
    command = program("router.bench.yardstick", *words)
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) for _ in range(count)]
    try:
        return [tuple(json.loads(process.communicate()[0])) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
