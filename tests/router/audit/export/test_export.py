"""An audit of an export gives the same as that of the original logs, and an export shows no key, message or path."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path

import pytest
from samples.logs import KEY, Store, open_log
from samples.packed_logs import pack_all

from router.audit.engine import evidence_of
from router.audit.export.lines import ExportError
from router.audit.export.logs import Exported, export, secret_from
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs
from router.core.log.events import Accepted, Outward, RouterChange, Turned
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from router.disk import private_file
from spark_analytics.judgement.evidence import Evidence

NAMES = Pseudonyms(bytes(range(32)))
GROUP, APP, STRANGER = (SigningKey(bytes([seed]) * 32).public for seed in (1, 2, 3))
IDS = bytes(range(64))
WORDS = bytes(8)
EVENTS = (
    RouterChange(1, 1, "start", (("arrival", 1), ("listener", f"tls://{STRANGER.hex()}@10.1.2.3:7"))),
    RouterChange(2, 2, "join", (("subscriber", bytes(APP)), ("group", bytes(GROUP)))),
    Accepted(3, 3, 1, 1, GROUP, None, STRANGER, 4, (bytes(APP),), IDS, WORDS, WORDS, WORDS),
    Outward(4, 4, "delivered", bytes(APP), 5, ((1, 2),), None, 0, 0, 9, 1),
    Turned(5, 5, "refused", STRANGER, 4, 4, IDS[:32], 1, GROUP),
    RouterChange(6, 6, "link", (("peer", bytes(STRANGER)), ("rtt_ns", 7), ("head_seq", 1), ("head_digest", IDS[:32]))),
)


def judged(path: Path) -> Evidence:
    return evidence_of(list_logs([path]))[0]


def exported(path: Path, out: Path) -> Exported:
    return export(*evidence_of(list_logs([path])), out, lambda: NAMES)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log of three segments, the first of which is pruned, and a fourth that was damaged."""
    directory = tmp_path / KEY.public.hex() / "log"
    segments, sealer = open_log(directory)
    store = Store()
    for number in range(4):
        sealer.add(store.commit(*EVENTS), number)
        sealer.seal()
    segments.prune(1e9, 1e9, sum(path.stat().st_size for path in directory.iterdir()) * 3 // 4)
    *_, last = sorted(directory.glob("events-*"))
    last.write_bytes(last.read_bytes().replace(b"delivered", b"refused__"))
    return directory


def test_the_export_is_a_signed_chain_with_the_same_holes(log: Path, tmp_path: Path) -> None:
    before, said = judged(log), exported(log, tmp_path / "out")
    after = judged(tmp_path / "out")
    assert (said.routers, said.segments, said.events, said.left_out) == (1, 2, 12, 1)
    assert [file.status for file in before.files] == ["good", "good", "bad", "pruned"]
    statuses = [sorted((file.status, file.first_seq, file.last_seq) for file in one.files) for one in (before, after)]
    assert statuses[0] == statuses[1]
    assert {file.router for file in after.files} == {NAMES.key(KEY.public.hex())}
    holes = [[(hole.first_seq, hole.last_seq) for hole in one.holes] for one in (before, after)]
    assert holes[0] == holes[1] != [], "what was left out at the end is missing"
    problem, _ = after.problems
    assert "the event 'left out of this export' where the header of a segment should be" in problem.text


def test_export_of_compressed_files_is_that_of_the_plain_ones(log: Path, tmp_path: Path) -> None:
    exported(log, tmp_path / "plain")
    assert len(pack_all(log)) == 4
    exported(log, tmp_path / "packed")
    plain, packed = (
        {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}
        for top in (tmp_path / "plain", tmp_path / "packed")
    )
    assert plain == packed


def test_no_key_message_or_place_is_in_it(log: Path, tmp_path: Path) -> None:
    said = b"".join(path.read_bytes() for path in log.iterdir())
    exported(log, tmp_path / "out")
    names = [str(path) for path in (tmp_path / "out").rglob("*")]
    text = "\n".join(names) + "\n".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    for key in (KEY.public, GROUP, APP, STRANGER):
        assert key.hex().encode() in said, "it was there to be found"
        assert key.hex()[:16] not in text
        assert key_text("addr", key) not in text
    assert IDS[:32].hex() not in text
    assert "10.1.2.3" not in text
    digests = re.findall(rb'"sha256":"([0-9a-f]{64})"', said)
    assert digests
    assert not [one for one in digests if one.decode() in text]


def test_two_exports_with_one_secret_join(log: Path, tmp_path: Path) -> None:
    judged_and_facts = evidence_of(list_logs([log]))
    for name in ("one", "two"):
        export(*judged_and_facts, tmp_path / name, lambda: Pseudonyms(secret_from(tmp_path / "secret")))
    one, two = ({path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.json*")}
                for name in ("one", "two"))  # fmt: skip
    assert one == two
    assert len(one) == 5
    assert json.loads((tmp_path / "one" / "export.json").read_text())["routers"] == 1


# -- where it goes ----------------------------------------------------------------------------------------------------


def test_what_is_there_is_not_written_over(log: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ExportError, match="loop"):
        exported(log, tmp_path / "loop")
    with pytest.raises(ExportError, match="is there already"):
        exported(log, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_empty_directory_stays_the_one_that_it_is(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the directory itself, because a process may be in it, or a disk mounted there."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    exported(log, Path())
    assert judged(Path()).logs[0].segments == 2
    assert sorted(os.listdir()) == sorted([NAMES.key(KEY.public.hex())[:16], "export.json"])  # noqa: PTH208 - of the process


@pytest.mark.parametrize("name", ["new/", "a/../other", "a/link"])
def test_any_way_to_name_a_directory_will_do(name: str, log: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "target")
    exported(log, Path(f"{tmp_path}/{name}"))
    assert json.loads((tmp_path / name / "export.json").read_text())["segments"] == 2
    assert {path.name for path in tmp_path.iterdir()} <= {KEY.public.hex(), "a", "new", "other", "target"}


def test_what_fails_half_way_leaves_nothing(log: Path, tmp_path: Path) -> None:
    found = evidence_of(list_logs([log]))
    *_, last = [path for path in sorted(log.glob("events-*")) if str(path) in {seal.path for seal in found[0].seals}]
    last.unlink()
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "out", tmp_path / "empty"):
        with pytest.raises(ExportError, match="was pruned in the meantime; run it again"):
            export(*found, out, lambda: NAMES)
    assert list((tmp_path / "empty").iterdir()) == []
    assert not (tmp_path / "new").exists()


def test_nothing_to_believe_is_no_export(log: Path, tmp_path: Path) -> None:
    for path in log.iterdir():
        path.write_bytes(b"rubbish\n")
    before = {path.name for path in tmp_path.iterdir()}

    def names() -> Pseudonyms:
        raise AssertionError("there is nothing to name")

    with pytest.raises(ExportError, match="none of the files holds a log that can be believed"):
        export(*evidence_of(list_logs([log])), tmp_path / "new" / "out", names)
    assert {path.name for path in tmp_path.iterdir()} == before


# -- the secret -------------------------------------------------------------------------------------------------------


def test_the_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made: list[Path] = []
    secret = secret_from(path, made.append)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret_from(path, made.append) == secret and made == [path]
    path.chmod(0o644)
    with pytest.raises(ExportError, match=r"open to others.*chmod 600"):
        secret_from(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(ExportError, match="holds no secret for exports"):
        secret_from(path)


def test_a_secret_that_is_there_needs_no_writable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept a secret file that exists in a read-only directory, even as root."""
    secret = secret_from(tmp_path / "secret")

    def read_only(path: Path, data: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(private_file, "create", read_only)
    assert secret_from(tmp_path / "secret") == secret
    with pytest.raises(ExportError, match="other cannot be made: Read-only file system; name a file in a directory"):
        secret_from(tmp_path / "other")
