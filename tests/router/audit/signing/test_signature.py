"""An audit's signature holds for the files that were signed, all of them, and for nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]

from router.audit.signing.command import AHEAD_S_MAX, too_old
from router.audit.signing.digests import OddFile, file_digests, table_digests
from router.audit.signing.signature import FILE, LABEL, CheckedAudit, NotAsSigned, check, sign, signed_bytes
from router.core.wire.crypto import SigningKey, verify

CDDL = Validator(Path(__file__).parents[4] / "cddl" / "audit-signature.cddl")
KEY, OTHER = SigningKey(b"a" * 32), SigningKey(b"b" * 32)
AT_S = 1_800_000_000


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    (tmp_path / "events" / "date=2026-01-01").mkdir(parents=True)
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "delivery.parquet").write_bytes(b"one")
    (tmp_path / "events" / "date=2026-01-01" / "part-0.parquet").write_bytes(b"two")
    (tmp_path / "events" / ".part-0.parquet.crc").write_bytes(b"hidden")
    sign(tmp_path, file_digests(tmp_path), KEY, AT_S)
    return tmp_path


def test_signed_audit_is_good_and_what_the_cddl_says(audit: Path) -> None:
    assert check(audit) == CheckedAudit(KEY.public, AT_S, 3)
    said = json.loads((audit / FILE).read_text())
    assert CDDL.validate(said, "audit-signature")
    signed = signed_bytes(KEY.public, AT_S, said["files"])
    assert signed.startswith(LABEL) and verify(KEY.public, signed, bytes.fromhex(said["signature"]))
    assert CDDL.validate(signed.removeprefix(LABEL), "signed", require_deterministic=True)
    digests = [[path, bytes.fromhex(said["files"][path])] for path in sorted(said["files"])]
    assert cbor2.loads(signed.removeprefix(LABEL)) == [1, bytes(KEY.public), AT_S, digests]
    (audit / ".cache").write_text("hidden files are not looked at")
    assert check(audit).files == 3


def test_tables_have_the_digest_of_their_file_or_of_their_list(audit: Path) -> None:
    files = file_digests(audit / "events")
    assert list(files) == ["date=2026-01-01/part-0.parquet"]
    found = table_digests({"delivery.parquet": "aa", "events/b": "cc", "events/a": "bb"})
    assert found == {"delivery": "aa", "events": sha256(b"bb  events/a\ncc  events/b\n").hexdigest()}


def change(**values: Any) -> Callable[[Path], object]:
    def changed(path: Path) -> None:
        said = json.loads((path / FILE).read_text())
        (path / FILE).write_text(json.dumps(said | values))

    return changed


def other_file(path: Path) -> None:
    """Sign a summary of one's own with another key, and put the auditor's name to it."""
    (path / "summary.json").write_text('{"verdict": "good"}')
    sign(path, {name: digest for name, digest in file_digests(path).items() if name != FILE}, OTHER, AT_S)
    change(key=KEY.public.hex())(path)


def signed_after(at_s: int) -> Callable[[Path], object]:
    """Have the auditor, whose clock is wrong, sign at this time."""
    return lambda path: sign(
        path, {name: digest for name, digest in file_digests(path).items() if name != FILE}, KEY, at_s
    )


def pipe_as_signature(path: Path) -> None:
    (path / FILE).unlink()
    os.mkfifo(path / FILE)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "changed": (lambda path: (path / "delivery.parquet").write_bytes(b"onf"), "delivery.parquet was changed after"),
    "missing": (lambda path: (path / "delivery.parquet").unlink(), "delivery.parquet is missing"),
    "added": (lambda path: (path / "events" / "x").write_text(""), "events/x was not signed"),
    "no signature": (lambda path: (path / FILE).unlink(), "--out DIR --sign` makes one"),
    "no JSON": (lambda path: (path / FILE).write_text("{"), "is no signature of an audit, or is damaged"),
    "deep JSON": (lambda path: (path / FILE).write_text("[" * 100_000), "is no signature of an audit"),
    "more fields": (change(more=1), "is no signature of an audit"),
    "newer": (change(v=2), "has version 2 of .* use a newer one"),
    "another time": (change(at_s=AT_S + 1), "was changed: its signature is not by the key"),
    "a negative time": (change(at_s=-1), "was changed"),
    "a time without a date": (signed_after(1 << 32), "was signed after 2105"),
    "the greatest time": (signed_after((1 << 64) - 1), "was signed after 2105"),
    "a huge time": (change(at_s=1 << 63), "was changed"),
    "other files": (change(files={}), "was changed"),
    "no digests": (change(files={"summary.json": "zz"}), "was changed"),
    "another key": (change(key=OTHER.public.hex()), "was changed"),
    "a weak key": (change(key="00" * 32), "was changed"),
    "another's signature": (other_file, "was changed"),
    "a pipe": (lambda path: os.mkfifo(path / "pipe"), "pipe is no regular file"),
    "a link": (lambda path: (path / "link").symlink_to("summary.json"), "link is no regular file"),
    "a linked folder": (lambda path: (path / "folder").symlink_to("events"), "folder is no regular file"),
    "a pipe as signature": (pipe_as_signature, "signature.json is no regular file"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_whatever_is_not_as_signed_is_told(bad: str, audit: Path) -> None:
    spoil, text = BAD[bad]
    spoil(audit)
    with pytest.raises(NotAsSigned, match=text):
        check(audit)


def test_directory_that_is_missing_or_of_something_else_is_refused(
    audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (audit / "none", audit / "summary.json"):
        with pytest.raises(NotAsSigned, match=r"there is no .*signature\.json"):
            check(path)
    monkeypatch.setattr("router.audit.signing.digests.FILES_MAX", 2)
    with pytest.raises(OddFile, match="more than 2 files"):
        file_digests(audit)


def test_a_name_of_a_file_adds_no_line_to_what_is_said(audit: Path) -> None:
    """What was added is named; it cannot write, below the error, that all is as it was signed."""
    (audit / "x\n9 files are as they were signed\x1b[8m").write_text("")
    with pytest.raises(NotAsSigned, match=r"x 9 files are as they were signed \[8m was not signed") as caught:
        check(audit)
    assert str(caught.value).isprintable()


def test_a_file_that_was_not_signed_is_not_read(audit: Path) -> None:
    """It may be larger than anybody wants to read."""
    (audit / "large").write_bytes(b"much")
    found = file_digests(audit, {"delivery.parquet"})
    assert {name: digest for name, digest in found.items() if digest} == {
        "delivery.parquet": sha256(b"one").hexdigest()
    }
    assert "large" in found
    with pytest.raises(NotAsSigned, match="large was not signed"):
        check(audit)


NOW_NS = (AT_S + 5) * 10**9 + 1


@pytest.mark.parametrize(
    ("at_s", "newer_than", "said"),
    [
        (AT_S, (AT_S - 1) * 10**9, ""),
        (AT_S, -6.0, ""),
        (AT_S, AT_S * 10**9, "was signed on 2027-01-15 08:00:00 UTC, and not after 2027-01-15 08:00:00 UTC: ask"),
        (AT_S, -5.0, "and not after 2027-01-15 08:00:00 UTC"),
        (0, -(10.0**9), "was signed on 1970-01-01 00:00:00 UTC, and not after"),
        (AT_S + 5 + AHEAD_S_MAX, AT_S * 10**9, ""),
        (AT_S + 6 + AHEAD_S_MAX, AT_S * 10**9, "ahead of this machine's clock: set the clock that is wrong"),
        ((1 << 32) - 1, (1 << 63) - 1, "ahead of this machine's clock"),
    ],
)
def test_an_audit_is_newer_than_a_time_only_if_it_was_signed_after_it(at_s: int, newer_than: float, said: str) -> None:
    found = too_old(at_s, newer_than, NOW_NS)
    assert said in found and bool(said) == bool(found)
