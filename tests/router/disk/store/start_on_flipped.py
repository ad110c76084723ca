"""Start on copies of a store with one bit flipped, each in a process of its own; arguments: a folder, how many."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parents[3])]

from rigs.patience import HANG_S  # noqa: E402
from samples.logs import KEY, outward  # noqa: E402
from samples.stores import KEYS, WALL_S, apply, opened, parcel  # noqa: E402

from router.core.routing.effects import Changes, Finished  # noqa: E402
from router.core.wire.now import Now  # noqa: E402
from router.disk.limits import LogLimits  # noqa: E402
from router.disk.log.eventlog import Segments  # noqa: E402
from router.disk.log.logbook import Logbook  # noqa: E402
from router.disk.store.terms import StoreError  # noqa: E402

PAGE_BYTES = 4096
HEADER_BYTES = range(10, 16)
GOES_ON, SAYS_WHY, FAILS = 0, 3, 4


def made(path: Path) -> bytes:
    store, random = opened(path), Random(5)
    parcels = [parcel(random, 1 + 4 * number, WALL_S, count=4, recipients=2) for number in range(60)]
    for one in parcels:
        apply(store, Changes(parcels=[one], events=[outward(WALL_S)]))
    for one in parcels[:40]:
        size = one.size(0, one.count)
        apply(store, Changes(finished=[Finished(key, one.first, 0, one.count, size) for key in one.recipients]))
    store.close()
    return (path / "data.mdb").read_bytes()


def start(path: Path) -> int:
    """Do with a store what a start and the first seconds of a run do."""
    try:
        store = opened(path)
        logbook = Logbook(Segments(path / "log", KEY, LogLimits()), store, 1e9, 1 << 40)
        logbook.catch_up(Now(WALL_S * 10**9, 1))
        store.due(WALL_S + 10**6)
        for key in KEYS:
            store.fetch(key, 0, 1 << 40, 1 << 40)
        for number in range(3):
            one = parcel(Random(number), 10**6 + 100 * number, WALL_S)
            apply(store, Changes(parcels=[one], events=[outward(WALL_S)]), WALL_S + 10**6)
        store.space()
    except StoreError:
        return SAYS_WHY
    except BaseException:
        return FAILS
    return GOES_ON


def outcome(path: Path) -> str:
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os._exit(start(path))
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"code {os.WEXITSTATUS(status)}"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def main(base: Path, count: int) -> None:
    content, random, found = made(base / "whole"), Random(7), Counter[str]()
    spoilt = base / "spoilt"
    spoilt.mkdir()
    pages = range(2, len(content) // PAGE_BYTES)
    places = [(page * PAGE_BYTES + at, bit) for page in pages for at in HEADER_BYTES for bit in range(8)]
    for at, bit in random.sample(places, count):
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        (spoilt / "data.mdb").write_bytes(flipped)
        found[outcome(spoilt)] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
