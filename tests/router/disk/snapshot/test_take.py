"""A copy that was made while its file was written becomes equal to it, by writing what differs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from random import Random

import pytest

from router.disk.limits import StoreLimits
from router.disk.snapshot.form import SnapshotFault, SnapshotWriter
from router.disk.snapshot.take import COMPARED_BYTES, renew, staged, write
from router.disk.store.store import Store
from router.settings import keyring, node_rotation
from router.settings.home import Home

OLD = Random(1).randbytes(5 * COMPARED_BYTES + 7)


@pytest.mark.parametrize(
    ("now", "older"),
    [
        (OLD, OLD),
        (OLD, b""),
        (OLD[:-1] + b"x", OLD),
        (b"x" + OLD[1:], OLD),
        (OLD[: 2 * COMPARED_BYTES + 1], OLD),
        (OLD + bytes(2 * COMPARED_BYTES), OLD),
        (b"", OLD),
    ],
)
def test_an_older_copy_is_made_equal(now: bytes, older: bytes, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(now)
    (tmp_path / "copy").write_bytes(older)
    with (
        (tmp_path / "source").open("rb") as source,
        (tmp_path / "copy").open("r+b") as copy,
        ThreadPoolExecutor(2) as threads,
    ):
        renew(source.fileno(), copy.fileno(), threads)
    assert (tmp_path / "copy").read_bytes() == now


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    for content in (OLD, OLD[:-1] + b"x"):
        (tmp_path / "source").write_bytes(OLD)
        (tmp_path / "copy").write_bytes(content)
        with (
            (tmp_path / "source").open("rb") as source,
            (tmp_path / "copy").open("rb") as copy,  # through which nothing can be written
            ThreadPoolExecutor(2) as threads,
            nullcontext() if content == OLD else pytest.raises(OSError, match="Bad file descriptor"),
        ):
            renew(source.fileno(), copy.fileno(), threads)


@pytest.mark.parametrize("rotates", [False, True])
def test_no_snapshot_has_the_store_of_one_key_and_another_key(rotates: bool, tmp_path: Path) -> None:
    """The node's key may be rotated between the copy of its store and that of its keys: the store of what would be
    restored would belong to another router."""
    home = Home(tmp_path / "home")
    home.create()
    key = keyring.load_or_create(home, keyring.NODE)
    with closing(Store(home.store_path, StoreLimits(), b"b" * 16)) as store:
        store.recover(bytes(key.public))
    written = list[bytes]()
    with (
        staged(home.path) as copies,
        pytest.raises(SnapshotFault, match="take it again") if rotates else nullcontext(),
    ):
        if rotates:
            node_rotation.rotate(home, 1_800_000_000)
        write(home.path, copies, SnapshotWriter(written.append, None))
    assert copies.router == key.public and written
