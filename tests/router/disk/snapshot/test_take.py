"""A snapshot is of one moment: what a process hands over while it is taken is in the store or in that one's state."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, nullcontext
from io import BytesIO
from pathlib import Path
from typing import IO

import cbor2
import lmdb
import pytest
from rigs.patience import HANG_S
from samples.stores import KEYS, opened

from router.disk.limits import StoreLimits
from router.disk.snapshot.form import SnapshotReader, SnapshotWriter
from router.disk.snapshot.put_back import restore
from router.disk.snapshot.take import staged, write
from router.disk.snapshot.terms import SnapshotFault
from router.disk.store.rows import NUMBER
from router.disk.store.store import Store
from router.settings import keyring
from router.settings.home import Home

TESTS = Path(__file__).parents[3]
HANDS_OVER = """
import sys
from pathlib import Path
from random import Random
import lmdb
from samples.stores import KEYS, WALL_S, apply, opened, parcel
from router.core.routing.effects import Changes
home, random = Path(sys.argv[1]), Random(1)
store = opened(home / "store")
state = lmdb.open(str(home / "services/talker/state"), map_size=1 << 24, sync=False)
for first in range(1, 1 << 32):
    key = first.to_bytes(8, "big")
    with state.begin(write=True) as txn:
        txn.put(key, b"")
    apply(store, Changes(parcels=[parcel(random, first, WALL_S, count=1, size=300, recipients=1)]))
    with state.begin(write=True) as txn:
        txn.delete(key)
    print(first, flush=True)
"""
ROTATES = """
import sys
from pathlib import Path
from router.settings.home import Home
from router.settings.node_rotation import rotate
rotate(Home(Path(sys.argv[1])), 1_800_000_000)
"""
ROTATES_A_SERVICE = """
import sys
from pathlib import Path
from router.settings import keyring, renewed_keys
home, name = Path(sys.argv[1]), "service-web"
said = renewed_keys.begin(home / "keys", name, lambda: keyring.load(home, name), 1_800_000_000)
renewed_keys.rotate(home / "keys", name)
renewed_keys.finish(home / "keys", name, said)
"""
RENEWS = ROTATES_A_SERVICE.replace("service-web", "phone").replace('renewed_keys.rotate(home / "keys", name)\n', "")
TIMES = 3
LATER = 20
"""More commits than those for which LMDB would leave the pages alone without a reader."""


def in_store(home: Path) -> set[int]:
    with lmdb.open(str(home / "store"), max_dbs=30, readonly=True) as environment, environment.begin() as txn:
        return {NUMBER.unpack(key)[0] for key, _ in txn.cursor(environment.open_db(b"parcels", txn, create=False))}


def in_state(home: Path) -> set[int]:
    with lmdb.open(str(home / "services/talker/state"), readonly=True) as environment, environment.begin() as txn:
        return {NUMBER.unpack(key)[0] for key, _ in txn.cursor()}


def read_number(lines: IO[str]) -> int:
    return int(lines.readline())


@pytest.mark.parametrize("count", [0, 100])
def test_what_is_handed_over_meanwhile_is_in_the_store_or_still_with_its_owner(count: int, tmp_path: Path) -> None:
    """The process commits as fast as it can, while several snapshots are taken."""
    home = tmp_path / "home"
    (home / "services/talker/state").mkdir(parents=True)
    command, environment = [sys.executable, "-c", HANDS_OVER, str(home)], {"PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            for number in range(TIMES):
                known = max(read_number(process.stdout) for _ in range(1 + count))
                out = BytesIO()
                with staged(home) as copies:
                    assert copies.store is not None and copies.router == KEYS[0] and not copies.damaged
                    next_arrival = cbor2.loads(copies.store.row("meta", b"state") or b"")[0]
                    while read_number(process.stdout) < next_arrival + LATER:
                        pass
                    write(home, copies, SnapshotWriter(out.write, None))
                out.seek(0)
                copy = tmp_path / f"copy{number}"
                restore(SnapshotReader(out, lambda: b""), copy, 1)
                stored, waiting = in_store(copy), in_state(copy)
                assert stored == {*range(1, next_arrival)} and known < next_arrival
                assert waiting <= {next_arrival - 1, next_arrival}, "the one that it was handing over just then"
                with closing(opened(copy / "store")) as store:
                    owed = [one.parcel for key in KEYS for one in store.fetch(key, 0, 1 << 30, 1 << 40)[0]]
                assert {one.first for one in owed} == stored and all(len(one.blob) >= 300 for one in owed)
        finally:
            process.kill()
            process.communicate(timeout=HANG_S)


@pytest.mark.parametrize("rotates", ["", ROTATES, ROTATES_A_SERVICE, RENEWS])
def test_no_snapshot_has_the_store_of_one_key_and_another_key(rotates: str, tmp_path: Path) -> None:
    """A key of the node, a service or an app may be followed by another one between the copy of the store and that of
    the keys: what would be restored would belong to the former one."""
    home = Home(tmp_path / "home")
    home.create()
    key, *_ = (keyring.load_or_create(home, name) for name in (keyring.NODE, "service-web", "phone"))
    with closing(Store(home.store_path, StoreLimits(), b"b" * 16)) as store:
        store.recover(bytes(key.public))
    written = list[bytes]()
    with (
        staged(home.path) as copies,
        pytest.raises(SnapshotFault, match="take it again") if rotates else nullcontext(),
    ):
        if rotates:
            rotates_it = [sys.executable, "-c", rotates, str(home.path)]
            subprocess.run(rotates_it, check=True, timeout=HANG_S, env={"PYTHONPATH": str(TESTS.parent)})
        write(home.path, copies, SnapshotWriter(written.append, None))
    assert copies.router == key.public and written
