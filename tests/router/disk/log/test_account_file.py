"""The account beside the log is read back as it was written, and nothing that does not fit counts."""

from __future__ import annotations

from pathlib import Path

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from samples.logs import KEY, OTHER

from router.core.log.account import Account, measure, supposed
from router.core.log.alarms import UNACCOUNTED, NodeAlarm
from router.disk.log.account_file import NAME, read, write

ALICE = bytes((1,)) * 32
CDDL = Validator(Path(__file__).parents[4] / "cddl" / "account.cddl")


def an_account() -> Account:
    several = supposed(NodeAlarm(UNACCOUNTED, b"", 2))
    account = Account(9, {ALICE: measure([(1 << 40, 2), (1 << 61, 1)]), bytes(32): -1, b"": several})
    account.alarms.note(NodeAlarm(UNACCOUNTED, ALICE, 3, 7, 1_800_000_000).fields("raised"))
    return account


def test_an_account_is_read_back_as_it_was_written_and_fits_the_cddl(tmp_path: Path) -> None:
    account = an_account()
    write(tmp_path, KEY.public, account.copy(3))
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    said = CDDL.validate((tmp_path / NAME).read_bytes())
    assert said, said.format()
    found = read(tmp_path, KEY.public, 5, 9)
    assert found.copy(3) == account.copy(3) and list(found.alarms) == list(account.alarms)
    write(tmp_path, KEY.public, account.copy(2))
    assert CDDL.validate((tmp_path / NAME).read_bytes())
    assert read(tmp_path, KEY.public, 5, 12).units is None


def test_one_that_is_ahead_of_the_store_has_no_units_but_its_alarms(tmp_path: Path) -> None:
    write(tmp_path, KEY.public, an_account().copy(3))
    found = read(tmp_path, KEY.public, 5, 8)
    assert (found.next_seq, found.units, len(found.alarms)) == (6, None, 1)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\xff", b"\x85", cbor2.dumps(7), cbor2.dumps([2, bytes(KEY.public), 9, {}, []]),
     cbor2.dumps([1, bytes(OTHER.public), 9, {}, []]), cbor2.dumps([1, bytes(KEY.public), 0, {}, []]),
     cbor2.dumps([1, bytes(KEY.public), 9, {b"short": 1}, []]),
     cbor2.dumps([1, bytes(KEY.public), 9, {ALICE: "1"}, []]),
     cbor2.dumps([1, bytes(KEY.public), 9, 5, []]), cbor2.dumps([1, bytes(KEY.public), 9, {}, [[1]]]),
     cbor2.dumps([1, bytes(KEY.public), 9, {}, 5]), b"\x81" * 3000],
)  # fmt: skip
def test_what_is_no_account_of_this_router_is_made_anew(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(raw)
    (tmp_path / NAME).chmod(0o600)
    found = read(tmp_path, KEY.public, 5, 9)
    assert (found.next_seq, found.units, len(found.alarms)) == (6, None, 0)


def test_without_a_file_a_log_that_begins_has_nothing_open_and_any_other_is_not_known(tmp_path: Path) -> None:
    assert read(tmp_path, KEY.public, 0, 4).units == {}
    assert read(tmp_path, KEY.public, 1, 4).units is None
