"""Measure snapshots of a large store beside `cp` of it, and how long a running node's accepts take meanwhile.

`.venv/bin/python tests/scale/backup_scale.py [MIB] [ROUNDS] [DIRECTORY]` makes a home whose store holds so many MiB of
random bytes, runs its node, and takes turns: quiet, `cp` with sync, backup, restore. It needs three times the room.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles

import lmdb
import trio

from router.actors.process import program
from router.client.node import connect
from router.core.wire.grouplink import new_group
from router.disk.limits import StoreLimits
from router.disk.store.store import Store
from router.disk.store.terms import Beginning
from router.rig.node import NodeProcess
from router.settings import keyring
from router.settings.home import Home

LINK = new_group(b"g" * 32, b"k" * 32)
VALUE_BYTES, PER_TXN = 1 << 16, 512
QUIET_S, PAUSE_S = 10.0, 0.01


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

    def take(self) -> str:
        found, self.times_s = self.times_s, []
        p50, p99, longest = (one * 1e3 for one in (median(found), quantiles(found, n=100)[98], max(found)))
        return f"{len(found)} accepts, p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {longest:.0f} ms"


async def timed(*command: str) -> tuple[float, str]:
    began_s = time.perf_counter()
    done = await trio.run_process(command, capture_stderr=True, capture_stdout=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr.decode()}")
    return time.perf_counter() - began_s, done.stderr.decode().strip().replace("\n", "; ")


async def measure(base: Path, mib: int, rounds: int) -> None:
    home = Home(base / "home")
    fill(home, mib)
    size = home.store_path.joinpath("data.mdb").stat().st_size
    print(f"store: {size / (1 << 20):,.0f} MiB, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    node, accepts = NodeProcess("node", home, base / "stderr", {}), Accepts()
    await node.start()
    async with connect(home=home, as_name="reader") as reader:
        await reader.join(LINK)
    secret = base / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a passphrase")
    router = program("router", "--home", str(home.path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accepts.run, home)
        took = dict[str, list[float]]()
        for _ in range(rounds):
            await trio.sleep(QUIET_S)
            print("quiet:   ", accepts.take())
            for name, command in (
                ("cp", ("sh", "-c", f"cp {home.store_path}/data.mdb {base}/copy && sync {base}/copy")),
                ("cp alone", ("cp", f"{home.store_path}/data.mdb", f"{base}/copy")),
                ("plain", (*router, "backup", f"{base}/plain", "--plain")),
                ("sealed", (*router, "backup", f"{base}/sealed", "--passphrase-file", str(secret))),
                (
                    "restore",
                    (
                        *program("router", "--home", f"{base}/restored"),
                        "restore",
                        f"{base}/sealed",
                        "--passphrase-file",
                        str(secret),
                        "--yes",
                    ),
                ),
            ):
                found, said = await timed(*command)
                took.setdefault(name, []).append(found)
                print(
                    f"{name + ':':9}",
                    f"{found:.2f} s, {size / found / (1 << 20):.0f} MiB/s;",
                    accepts.take(),
                    said[:90],
                )
                shutil.rmtree(base / "restored", ignore_errors=True)
                (base / "copy").unlink(missing_ok=True)
        nursery.cancel_scope.cancel()
    await node.stop()
    for name, times in took.items():
        print(f"{name:9} median {median(times):.2f} s, {median(took['cp']) / median(times):.2f} of cp's rate")


if __name__ == "__main__":
    mib, rounds = (int(one) for one in (*sys.argv[1:3], *("1024", "3")[len(sys.argv[1:3]) :]))
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as directory:
        trio.run(measure, Path(directory), mib, rounds)
