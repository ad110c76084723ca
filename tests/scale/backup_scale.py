"""Measure snapshots of a large store beside `cp` of it, and how long a running node's accepts take meanwhile.

`.venv/bin/python tests/scale/backup_scale.py [MIB] [ROUNDS] [DIRECTORY]` makes a home whose store holds so many MiB of
random bytes, runs its node, and takes turns: quiet, `cp` with sync, backup, restore, plain and sealed. It needs four
times the room.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median, quantiles
from typing import NamedTuple

import lmdb
import trio

from router.actors.process import program
from router.client.node import connect
from router.core.wire.grouplink import new_group
from router.disk.limits import StoreLimits
from router.disk.removal import remove_file, remove_tree
from router.disk.store.store import Store
from router.disk.store.terms import Beginning
from router.rig.node import NodeProcess
from router.settings import keyring
from router.settings.home import Home

LINK = new_group(b"g" * 32, b"k" * 32)
VALUE_BYTES, PER_TXN = 1 << 16, 512
QUIET_S, PAUSE_S = 6.0, 0.01


def fill(home: Home, mib: int) -> None:
    """Make a home with a store that holds so many MiB, as frames of no parcel, which nobody asks for."""
    home.create()
    key = keyring.load_or_create(home, keyring.NODE)
    with closing(Store(home.store_path, StoreLimits(), bytes(16))) as store:
        store.recover(bytes(key.public), Beginning())
    with lmdb.open(str(home.store_path), map_size=(mib << 20) * 2, max_dbs=40, lock=False) as environment:
        frames = environment.open_db(b"frames")
        for first in range(0, (mib << 20) // VALUE_BYTES, PER_TXN):
            with environment.begin(write=True) as txn:
                for number in range(first, min(first + PER_TXN, (mib << 20) // VALUE_BYTES)):
                    value = os.urandom(VALUE_BYTES - 64)  # with LMDB's own, a whole number of pages
                    txn.put(((1 << 40) + number).to_bytes(8, "big"), value, db=frames, append=True)


class Accepts:
    """How long the node takes to accept a message, one after the other."""

    def __init__(self) -> None:
        self.times_s: list[float] = []

    async def run(self, home: Home) -> None:
        async with connect(home=home) as app:
            while True:
                began_s = time.perf_counter()
                await app.group(LINK).publish(os.urandom(200))
                self.times_s.append(time.perf_counter() - began_s)
                await trio.sleep(PAUSE_S)

    async def anew(self) -> None:
        """Begin to count with the accept after the next one, which may have been begun before."""
        self.times_s.clear()
        while not self.times_s:
            await trio.sleep(PAUSE_S)
        self.times_s.clear()

    def take(self) -> Taken:
        found, self.times_s = self.times_s, []
        return Taken(len(found), median(found) * 1e3, quantiles(found, n=100)[98] * 1e3, max(found) * 1e3)


class Taken(NamedTuple):
    """How many accepts there were, and their times in milliseconds."""

    number: int
    p50: float
    p99: float
    longest: float

    def __str__(self) -> str:
        return f"{self.number} accepts, p50 {self.p50:.1f} ms, p99 {self.p99:.1f} ms, longest {self.longest:.0f} ms"


class Ran(NamedTuple):
    """How long a command took, and its CPU time, in seconds; what it said; and the accepts beside it."""

    wall_s: float
    cpu_s: float
    said: str
    beside: Taken


def children_cpu_s() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def ran(accepts: Accepts, *command: str) -> Ran:
    await accepts.anew()
    began_s, cpu_s = time.perf_counter(), children_cpu_s()
    done = await trio.run_process(command, capture_stderr=True, capture_stdout=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr.decode()}")
    wall_s, cpu_s = time.perf_counter() - began_s, children_cpu_s() - cpu_s
    while len(accepts.times_s) < 2:  # the one that it held up counts, too
        await trio.sleep(PAUSE_S)
    return Ran(wall_s, cpu_s, done.stderr.decode().strip().replace("\n", "; "), accepts.take())


def commands(base: Path, home: Home) -> dict[str, tuple[str, ...]]:
    """Return what is measured, in its order; each writes one file, or one home, below `base`."""
    secret = base / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a passphrase")
    sealed = ("--passphrase-file", str(secret))
    here, there = (program("router", "--home", str(one)) for one in (home.path, base / "restored"))
    return {
        "cp": ("sh", "-c", f"cp {home.store_path}/data.mdb {base}/copy && sync {base}/copy"),
        "plain": (*here, "backup", f"{base}/plain", "--plain"),
        "sealed": (*here, "backup", f"{base}/sealed", *sealed),
        "restore plain": (*there, "restore", f"{base}/plain", "--yes"),
        "restore sealed": (*there, "restore", f"{base}/sealed", *sealed, "--yes"),
    }


def remove_made(base: Path) -> None:
    """Remove what the last command has made, so that nobody waits for it beside the next one."""
    remove_tree(base / "restored", ignore_errors=True)
    remove_file(base / "copy")


async def measure(base: Path, mib: int, rounds: int) -> None:
    home = Home(base / "home")
    fill(home, mib)
    size = home.store_path.joinpath("data.mdb").stat().st_size
    print(f"store: {size / (1 << 20):,.0f} MiB, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    node, accepts = NodeProcess("node", home, base / "stderr", {}), Accepts()
    await node.start()
    async with connect(home=home, as_name="reader") as reader:
        await reader.join(LINK)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accepts.run, home)
        found, quiet = dict[str, list[Ran]](), list[Taken]()
        for _ in range(rounds):
            await trio.sleep(QUIET_S / 2)
            await accepts.anew()
            await trio.sleep(QUIET_S)
            quiet.append(accepts.take())
            print("quiet:         ", quiet[-1])
            for name, command in commands(base, home).items():
                one = await ran(accepts, *command)
                found.setdefault(name, []).append(one)
                rate = size / one.wall_s / (1 << 20)
                print(
                    f"{name + ':':15} {one.wall_s:.2f} s, CPU {one.cpu_s:.2f} s, {rate:.0f} MiB/s;",
                    one.beside,
                    one.said[:90],
                )
                await trio.to_thread.run_sync(remove_made, base)
        nursery.cancel_scope.cancel()
    await node.stop()
    for name, those in found.items():
        walls, cp = [one.wall_s for one in those], [one.wall_s for one in found["cp"]]
        rate, cpu = median(cp) / median(walls), median(one.cpu_s for one in those)
        p50 = median(one.beside.p50 for one in those) / median(one.p50 for one in quiet)
        longest, usual = median(one.beside.longest for one in those), median(one.longest for one in quiet)
        said = f"{median(walls):.2f} s, {rate:.2f} of cp's rate, CPU {cpu:.2f} s; p50 beside {p50:.2f} of quiet"
        print(f"{name:15} median {said}, longest accept {longest:.0f} ms (quiet {usual:.0f})")


if __name__ == "__main__":
    mib, rounds = (int(one) for one in (*sys.argv[1:3], *("1024", "3")[len(sys.argv[1:3]) :]))
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as directory:
        trio.run(measure, Path(directory), mib, rounds)
