"""The manifest of a snapshot is looked up from the end of its file, and nothing else is taken for it."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from random import Random

import cbor2
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from router.disk.snapshot import manifest_ahead as module
from router.disk.snapshot.form import LAST, MANIFEST, PLAIN, RECORD, SnapshotReader, SnapshotWriter, seal_key
from router.disk.snapshot.manifest_ahead import manifest_ahead
from router.disk.snapshot.terms import Cost, Manifest, SnapshotFault

SEAL = b"a passphrase", Cost(bytes(range(16)), 1, 8192)
OLDER = Path(__file__).parents[3] / "samples" / "snapshots"


def written(files: dict[str, bytes], seal: tuple[bytes, Cost] | None = None) -> tuple[bytes, Manifest]:
    out = BytesIO()
    writer = SnapshotWriter(out.write, seal_key(*seal) if seal else None)
    for path, content in files.items():
        writer.part(path, BytesIO(content))
    manifest = writer.finish(1_800_000_000, bytes(32), ["store/data.mdb"])
    return out.getvalue(), manifest


def ahead(data: bytes, path: Path, passphrase: bytes = SEAL[0]) -> Manifest | None:
    path.write_bytes(data)
    with path.open("rb") as file:
        return manifest_ahead(SnapshotReader(file, lambda: passphrase), file.fileno())


@pytest.mark.parametrize("seal", [None, SEAL])
def test_it_is_the_one_that_was_written_also_behind_many_letters_like_its_own(
    seal: tuple[bytes, Cost] | None, tmp_path: Path
) -> None:
    files = {"store/data.mdb": MANIFEST * (1 << 21) + Random(1).randbytes(1 << 20), "keys/node.key": MANIFEST * 9}
    data, manifest = written(files, seal)
    assert ahead(data, tmp_path / "file") == manifest


def test_one_that_is_longer_than_a_piece_is_put_together(tmp_path: Path) -> None:
    data, manifest = written({f"log/{number:0500}": b"" for number in range(5000)})
    assert len(manifest.parts) == 5000 and ahead(data, tmp_path / "file") == manifest


@pytest.mark.parametrize("has_one", [True, False])
def test_what_only_looks_like_one_is_passed_over_and_not_tried_for_ever(has_one: bool, tmp_path: Path) -> None:
    """A file of the home holds the beginnings of many manifests that reach to the end."""
    count, path = 3 * module.TRIES_MAX, "keys/node.key"
    parts = [[path, RECORD.size * count, bytes(32)]]
    said = cbor2.dumps({"at_s": 1_800_000_000, "router": bytes(32), "parts": parts, "damaged": ["store/data.mdb"]})
    rest = RECORD.size + 32 + len(said)
    lies = b"".join(RECORD.pack(MANIFEST, rest + RECORD.size * number) for number in reversed(range(count)))
    data, manifest = written({path: lies})
    if has_one:
        assert ahead(data, tmp_path / "file") == manifest
        return
    tail = lies + bytes(rest)
    places = [*module._beginnings(tail, len(tail))]
    assert len(places) == count and places == sorted(places, reverse=True)
    with pytest.raises(SnapshotFault, match="altered"):
        ahead(without_manifest(tail), tmp_path / "file")


def without_manifest(content: bytes) -> bytes:
    """Return a snapshot of one piece with that content."""
    head = written({})[0]
    reader = SnapshotReader(BytesIO(head), bytes)
    key = blake3(reader.head, key=PLAIN).digest()
    sealed = AESGCM(key).encrypt((0).to_bytes(8, "big") + LAST.to_bytes(4, "big"), content, None)
    return reader.head + (LAST | len(sealed)).to_bytes(4, "big") + sealed


def test_a_file_that_was_cut_or_changed_is_refused(tmp_path: Path) -> None:
    data, _ = written({"router.toml": b"x = 1\n"}, SEAL)
    for bad in (data[:-1], data[:-20], data[:-1] + bytes([data[-1] ^ 1])):
        with pytest.raises(SnapshotFault):
            ahead(bad, tmp_path / "file")
    with pytest.raises(SnapshotFault, match="passphrase is not the one"):
        ahead(data, tmp_path / "file", b"another")


def test_of_a_pipe_and_of_an_older_version_none_is_looked_up(tmp_path: Path) -> None:
    data, _ = written({"router.toml": b"x = 1\n"})
    reads, writes = os.pipe()
    os.write(writes, data)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        assert manifest_ahead(SnapshotReader(file, bytes), file.fileno()) is None
    assert ahead((OLDER / "format2.plain").read_bytes(), tmp_path / "file") is None
