"""The bytes of a snapshot: what is read is what was written, and nothing cut or changed is taken for whole."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random

import cbor2
import pytest
from blake3 import blake3
from cddl_verifier import Validator  # type: ignore[import-untyped]
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import to_builtins
from nacl.pwhash import argon2id

from router.disk.snapshot import form
from router.disk.snapshot.form import FIRST, VERSION, SnapshotReader, SnapshotWriter, seal_key
from router.disk.snapshot.terms import Content, Cost, Manifest, SavedFile, SnapshotFault

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SAMPLES = Path(__file__).parents[3] / "samples" / "snapshots"
CDDL = Validator(Path(__file__).parents[4] / "cddl" / "snapshot.cddl")
SEAL = b"a passphrase", Cost(bytes(range(16)), 1, 8192)
FILES = {
    "router.toml": b"x = 1\n",
    "keys/node.key": bytes(range(64)),
    "groups/empty": b"",
    "store/data.mdb": bytes(900),
}
SEALED, PLAIN = SEAL, None


@cache
def snapshot(seal: tuple[bytes, Cost] | None) -> bytes:
    return written(FILES, seal)


def written(files: dict[str, bytes], seal: tuple[bytes, Cost] | None) -> bytes:
    out = BytesIO()
    writer = SnapshotWriter(out.write, seal_key(*seal) if seal else None)
    for path, content in files.items():
        writer.part(path, BytesIO(content))
    writer.finish(1_800_000_000, bytes(32), ["store/data.mdb"])
    return out.getvalue()


def read(data: bytes, passphrase: bytes = SEAL[0]) -> tuple[Manifest, dict[str, bytes]]:
    found = dict[str, bytearray]()

    def begin(path: str) -> Callable[[Content | None], object]:
        def take(content: Content | None) -> None:
            found.pop(path) if content is None else found[path].extend(content)

        assert path not in found
        found[path] = bytearray()
        return take

    manifest = SnapshotReader(BytesIO(data), lambda: passphrase).read(begin)
    return manifest, {path: bytes(content) for path, content in found.items()}


def taken_apart(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return what is before the first piece, and the pieces, each with its length."""
    at = data.index(b"\n") + 1
    at += 4 + int.from_bytes(data[at : at + 4], "big")
    head, pieces = data[:at], list[bytes]()
    while at < len(data):
        end = at + 4 + (int.from_bytes(data[at : at + 4], "big") & 0x3FFFFFFF)
        pieces.append(data[at:end])
        at = end
    return head, pieces


@pytest.mark.parametrize("seal", [SEALED, PLAIN])
def test_what_was_written_is_read(seal: tuple[bytes, Cost] | None) -> None:
    manifest, found = read(snapshot(seal))
    assert found == FILES
    assert (manifest.at_s, manifest.router, manifest.damaged) == (1_800_000_000, bytes(32), ["store/data.mdb"])


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 5, 1 << 20, (1 << 20) + 1, 9 << 20])
def test_files_of_many_pieces_are_read(size: int) -> None:
    files = {"store/data.mdb": Random(size).randbytes(size), "log/events": b"same line\n" * (size // 10)}
    assert read(written(files, PLAIN))[1] == files


@pytest.mark.parametrize("name", ["format1.plain", "format1.sealed", "format2.plain", "format2.sealed"])
def test_a_snapshot_of_an_older_format_is_read(name: str) -> None:
    """The samples were written by programs that knew no later format."""
    manifest, found = read((SAMPLES / name).read_bytes())
    assert found == {
        "router.toml": b'[node]\nname = "old"\n',
        "keys/node.key": bytes(range(64)),
        "groups/empty": b"",
        "log/events": b"same line\n" * 3000,
    }
    assert (manifest.at_s, manifest.router, manifest.damaged) == (1_790_000_000, bytes(range(32)), ["store/data.mdb"])


@pytest.mark.parametrize("name", ["format1.plain", "format2.plain"])
def test_a_snapshot_of_an_older_format_that_was_cut_or_changed_is_refused(name: str) -> None:
    data = (SAMPLES / name).read_bytes()
    for end in range(0, len(data), 7):
        with pytest.raises(SnapshotFault, match="it ends too early"):
            read(data[:end])
        with pytest.raises(SnapshotFault):
            read(data[:end] + bytes((data[end] ^ 1,)) + data[end + 1 :])


def test_a_part_that_is_withdrawn_does_not_count_and_may_come_again() -> None:
    out = BytesIO()
    writer = SnapshotWriter(out.write, PLAIN)
    writer.part("store/data.mdb", BytesIO(b"half"), lambda: False)
    writer.part("store/data.mdb", BytesIO(b"as it was found"))
    writer.part("log/none", BytesIO(b""), lambda: False)
    writer.finish(1, b"", [])
    manifest, found = read(out.getvalue())
    assert found == {"store/data.mdb": b"as it was found"}
    assert [one.path for one in manifest.parts] == ["store/data.mdb"]


@pytest.mark.parametrize("seal", [SEALED, PLAIN])
def test_a_snapshot_that_was_cut_anywhere_is_refused(seal: tuple[bytes, Cost] | None) -> None:
    data = snapshot(seal)
    for end in range(len(data)):
        with pytest.raises(SnapshotFault, match="it ends too early"):
            read(data[:end])


@pytest.mark.parametrize("seal", [SEALED, PLAIN])
def test_a_snapshot_with_any_byte_changed_is_refused(seal: tuple[bytes, Cost] | None) -> None:
    data = snapshot(seal)
    for at in range(len(data)):
        for bit in (0x01, 0x20):
            with pytest.raises(SnapshotFault):
                read(data[:at] + bytes((data[at] ^ bit,)) + data[at + 1 :])


def test_pieces_that_were_left_out_doubled_or_exchanged_are_refused() -> None:
    data = written({"store/data.mdb": Random(1).randbytes(4 << 20)}, PLAIN)
    at = data.index(b"\n") + 1
    cuts = [at := at + 4 + int.from_bytes(data[at : at + 4], "big")]
    while at < len(data):
        cuts.append(at := at + 4 + int.from_bytes(data[at : at + 4], "big"))
    head, first, second, *others = (data[a:b] for a, b in zip([0, *cuts], cuts, strict=False))
    assert len(others) > 1
    for pieces in ([first, *others], [first, first, second, *others], [second, first, *others], [*others]):
        with pytest.raises(SnapshotFault):
            read(head + b"".join(pieces))


@pytest.mark.parametrize("seal", [SEALED, PLAIN])
def test_pieces_are_sealed_as_the_cddl_says(seal: tuple[bytes, Cost] | None) -> None:
    """Each under its own nonce, and under a key of that one snapshot."""
    data = written({"store/data.mdb": Random(1).randbytes(2 << 20) + bytes(1 << 20)}, seal)
    head, pieces = taken_apart(data)
    key = blake3(b"router snapshot, plain").digest()
    if seal:
        key = argon2id.kdf(32, seal[0], seal[1].salt, seal[1].operations, seal[1].memory)
    cipher, opened, kinds = AESGCM(blake3(head, key=key).digest()), b"", set[int]()
    for number, piece in enumerate(pieces):
        bits = piece[0] & 0xC0
        kinds.add(bits)
        content = cipher.decrypt(number.to_bytes(8, "big") + bytes((bits, 0, 0, 0)), piece[4:], None)
        opened += zstd.decompress(content) if bits & 0x40 else content
    assert [bool(piece[0] & 0x80) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert {bits & 0x40 for bits in kinds} == {0, 0x40}, "one is compressed, and one is not"
    assert opened.startswith(b"P" + (14).to_bytes(4, "big") + b"store/data.mdbD")


@pytest.mark.parametrize("seal", [SEALED, PLAIN])
def test_no_two_snapshots_have_one_key(seal: tuple[bytes, Cost] | None) -> None:
    """Their pieces have the same numbers, and so the same nonces; none fits into the other."""
    (head, first), (other_head, other) = (taken_apart(written(FILES, seal)) for _ in range(2))
    assert head != other_head and len(first) == len(other) == 1 and first[0][4:] != other[0][4:]
    with pytest.raises(SnapshotFault):
        read(head + other[0])


def test_a_piece_that_wants_a_larger_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def compress(data: bytes, _: int) -> bytes:
        wide = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
        return wide.compress(data[:1]) + wide.compress(data[1:]) + wide.flush()

    monkeypatch.setattr(zstd, "compress", compress)
    data = written(FILES, PLAIN)
    with pytest.raises(SnapshotFault, match="it was altered or damaged"):
        read(data)


def test_records_may_be_cut_into_pieces_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "PIECE_BYTES", 1)
    data = written(FILES, PLAIN)
    assert len(taken_apart(data)[1]) > 2 * len(FILES)
    assert read(data)[1] == FILES


def test_a_piece_that_unpacks_to_more_than_a_reader_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "PIECE_BYTES", 1 << 30)
    data = written({"store/data.mdb": bytes(8 << 20)}, PLAIN)
    assert len(data) < 1 << 16
    with pytest.raises(SnapshotFault, match="it was altered or damaged"):
        read(data)


def test_a_length_beyond_what_a_reader_takes_is_refused_before_it_is_read() -> None:
    head, _ = taken_apart(snapshot(PLAIN))
    with pytest.raises(SnapshotFault, match="it was altered or damaged"):
        read(head + (form.PIECE_BYTES_MAX + 1).to_bytes(4, "big"))


def test_a_manifest_that_does_not_agree_with_the_parts_is_refused() -> None:
    out = BytesIO()
    writer = SnapshotWriter(out.write, PLAIN)
    writer.part("router.toml", BytesIO(b"x = 1\n"))
    writer._parts[0] = SavedFile("router.toml", 6, bytes(32))
    writer.finish(1, b"", [])
    with pytest.raises(SnapshotFault, match="it was altered or damaged"):
        read(out.getvalue())


def test_bytes_behind_the_end_are_refused() -> None:
    with pytest.raises(SnapshotFault, match="something follows its end"):
        read(snapshot(PLAIN) + b"\0")


def test_another_passphrase_is_told() -> None:
    with pytest.raises(SnapshotFault, match="the passphrase is not the one that it was sealed with"):
        read(snapshot(SEALED), b"another")


def test_a_newer_version_is_told() -> None:
    newer = snapshot(PLAIN).replace(FIRST + b"%d" % VERSION, FIRST + b"%d" % (VERSION + 1), 1)
    with pytest.raises(SnapshotFault, match=f"format {VERSION + 1}, and this program reads formats up to {VERSION}"):
        read(newer)


def test_something_else_is_no_snapshot() -> None:
    with pytest.raises(SnapshotFault, match="no snapshot of a router's home"):
        read(b"events of another kind\n")


def test_a_name_that_is_not_in_utf8_is_refused() -> None:
    with pytest.raises(SnapshotFault, match="not in UTF-8"):
        written({"groups/\udcff": b""}, PLAIN)


@pytest.mark.parametrize("seal", [SEALED, PLAIN])
def test_header_and_manifest_are_what_the_cddl_says(seal: tuple[bytes, Cost] | None) -> None:
    data = snapshot(seal)
    at = data.index(b"\n") + 1
    size = int.from_bytes(data[at : at + 4], "big")
    header = data[at + 4 : at + 4 + size]
    assert CDDL.validate(header, "header").valid
    assert ("cost" in cbor2.loads(header)) is (seal is not None)
    manifest, _ = read(data)
    said = cbor2.dumps(to_builtins(manifest, builtin_types=(bytes,)))
    assert CDDL.validate(said, "manifest").valid
    assert not CDDL.validate(cbor2.dumps({"at_s": -1}), "manifest").valid


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit by the size of this process, which it reads in /proc")
def test_a_passphrase_for_which_there_is_no_memory_is_told() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    out = BytesIO()
    resource.setrlimit(resource.RLIMIT_AS, (size + (256 << 20), hard))
    try:
        with pytest.raises(SnapshotFault, match="takes 1024 MiB of memory at once, and there is not as much: end what"):
            seal_key(b"a passphrase", Cost(bytes(16), 1, 1 << 30))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert not out.getvalue()


def test_files_without_number_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same record again and again takes no room in a compressed piece, and some in a list of files."""
    monkeypatch.setattr(form, "PARTS_MAX", 3)
    names = [f"keys/{number}" for number in range(4)]
    whole = written(dict.fromkeys(names[:3], b""), PLAIN)
    assert len(read(whole)[1]) == 3
    with pytest.raises(SnapshotFault, match="4 files, and a snapshot lists 3 files in 64 MiB at the most: let"):
        written(dict.fromkeys(names, b""), PLAIN)
    begun = list[str]()
    monkeypatch.setattr(form, "PARTS_MAX", 4)
    more = written(dict.fromkeys(names, b""), PLAIN)
    monkeypatch.setattr(form, "PARTS_MAX", 3)

    def begin(path: str) -> Callable[[Content | None], object]:
        begun.append(path)
        return lambda _: None

    with pytest.raises(SnapshotFault, match="altered or damaged"):
        SnapshotReader(BytesIO(more), lambda: b"").read(begin)
    assert begun == names[:3]


@pytest.mark.parametrize(("at_s", "router"), [(-1, b""), (form.AT_S_MAX + 1, b""), (1 << 63, b""), (1, bytes(31))])
def test_a_time_without_a_date_or_a_key_of_another_size_is_refused(at_s: int, router: bytes) -> None:
    """Both are printed."""
    out = BytesIO()
    SnapshotWriter(out.write, None).finish(at_s, router, [])
    with pytest.raises(SnapshotFault, match="altered or damaged"):
        read(out.getvalue())


def test_a_path_that_no_file_can_have_is_refused_before_it_is_tried() -> None:
    for size in (4096, 4097):
        data = written({"k" * size: b""}, PLAIN)
        if size == 4096:
            assert list(read(data)[1]) == ["k" * size]
        else:
            with pytest.raises(SnapshotFault, match="altered or damaged"):
                read(data)
