"""An export tells an audit the same as the logs it was made of, and shows nobody's key, message or place."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
from log_samples import KEY, Store, open_log

from router.audit.export import ExportError, export, secret_from
from router.audit.facts import read_facts
from router.audit.listing import list_logs
from router.audit.pseudonyms import Pseudonyms
from router.core.crypto import SigningKey, verify
from router.core.events import Accepted, Outward, State, Turned
from router.core.text import key_text
from spark_analytics.evidence import Evidence, judge

NAMES = Pseudonyms(bytes(range(32)))
GROUP, APP, STRANGER = (SigningKey(bytes([seed]) * 32).public for seed in (1, 2, 3))
IDS = bytes(range(64))
WORDS = bytes(8)
EVENTS = (
    State(1, 1, "start", (("arrival", 1), ("listener", f"tls://{STRANGER.hex()}@10.1.2.3:7"))),
    State(2, 2, "join", (("subscriber", bytes(APP)), ("group", bytes(GROUP)))),
    Accepted(3, 3, 1, 1, GROUP, None, STRANGER, 4, (bytes(APP),), IDS, WORDS, WORDS, WORDS),
    Outward(4, 4, "delivered", bytes(APP), 5, ((1, 2),), None, 0, 0, 9),
    Turned(5, 5, "refused", STRANGER, 4, 4, IDS[:32], 1, GROUP),
    State(6, 6, "link", (("peer", bytes(STRANGER)), ("rtt_ns", 7), ("head_seq", 1), ("head_digest", IDS[:32]))),
)


def judged(path: Path) -> Evidence:
    listing = list_logs([path])
    return judge(read_facts(listing.paths), lambda name: Path(name).read_bytes(), verify=verify)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three segments, the first of which is pruned, and a fourth that somebody spoilt."""
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
    before = judged(log)
    said = export(before.files, tmp_path / "out", NAMES)
    after = judged(tmp_path / "out")
    assert (said.routers, said.segments, said.events, said.left_out) == (1, 2, 12, 1)
    assert [file.status for file in before.files] == ["good", "good", "bad", "pruned"]
    assert [(file.status, file.first_seq, file.last_seq) for file in after.files] == [
        (file.status, file.first_seq, file.last_seq) for file in before.files if file.status != "bad"
    ]
    assert {file.router for file in after.files} == {NAMES.key(KEY.public.hex())}
    assert not after.problems
    assert not after.holes, "what was left out at the end is not known to be missing"


def test_no_key_message_or_place_is_in_it(log: Path, tmp_path: Path) -> None:
    said = b"".join(path.read_bytes() for path in log.iterdir())
    export(judged(log).files, tmp_path / "out", NAMES)
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
    files = judged(log).files
    for name in ("one", "two"):
        export(files, tmp_path / name, Pseudonyms(secret_from(tmp_path / "secret")))
    one, two = (sorted(path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*"))
                for name in ("one", "two"))  # fmt: skip
    assert one == two
    assert json.loads((tmp_path / "one" / "export.json").read_text())["routers"] == 1


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


def test_what_is_there_is_not_written_over(log: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(ExportError, match="is there already"):
        export(judged(log).files, tmp_path / "out", NAMES)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_nothing_to_believe_is_no_export(log: Path, tmp_path: Path) -> None:
    files = [file for file in judged(log).files if file.status == "bad"]
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(ExportError, match="none of the files holds a log that can be believed"):
        export(files, tmp_path / "new" / "out", NAMES)
    assert {path.name for path in tmp_path.iterdir()} == before
