"""`router capd decode`: the vectors of the reference, `msgpool.dat`, and input that is no message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from router.cli import main
from router.core.wire.codec import Malformed
from services.capd.core.message import CapdMessage, read_message
from services.capd.core.pool_file import HEAD_BYTES, encode_pool, messages_in

VECTORS = Path(__file__).parents[2] / "vectors" / "capd"
CASES = [one for one in json.loads((VECTORS / "messages.json").read_text())["cases"] if one["wire"]]
KEYS = ["id", "valid", "priority", "data", "create_time", "expiration", "rescind_hash", "difficulty_bits", "nonce"]


def decode(*arguments: object, **given: Any) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(main, ["capd", "decode", *map(str, arguments)], **given)
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def shown(case: dict[str, Any], age: str) -> dict[str, Any]:
    return {
        "id": case["id_display"], "valid": case["pow_ok"], "priority": case["priority_at_age"][age],
        "data": case["data"], "create_time": case["create_time"],
        "expiration": None if case["expiration"] == 0xFFFF else case["expiration"],
        "rescind_hash": None if case["rescind_hash"] == "00" * 20 else case["rescind_hash"],
        "difficulty_bits": case["difficulty_bits"], "nonce": case["nonce"],
    }  # fmt: skip


@pytest.mark.parametrize("age", ("0", "300", "1200"))
def test_decode_prints_the_vectors(age: str) -> None:
    born = [case for case in CASES if case["create_time"] == 1_700_000_000]
    code, found = decode("--at", 1_700_000_000 + int(age), *(case["wire"] for case in born))
    assert (code, found) == (0, [shown(case, age) for case in born]) and len(born) == 10
    assert all(list(one) == KEYS for one in found)


def test_decode_reports_each_line_that_is_no_message() -> None:
    case = CASES[1]
    code, found = decode("--json", "--at", 1_700_000_000, "00", input="")
    assert code == 1 and found == [{"error": "the data ends within the creation time: 8 bytes are needed, 0 are left"}]
    code, found = decode("--at", 1_700_000_000, input=f"{case['wire']}\n\nxyz\nabc\n")
    assert code == 1 and found[0] == shown(case, "0")
    assert found[1] == {"error": "'xyz' is not hexadecimal; write two digits a byte"}
    odd = "'abc' has an odd number of hexadecimal digits, 3; write two digits a byte"
    assert found[2] == {"error": odd} and len(found) == 3


def test_decode_reads_a_file_of_the_reference(tmp_path: Path) -> None:
    messages = [read_message(bytes.fromhex(case["wire"])) for case in CASES]
    data = encode_pool(messages)
    (tmp_path / "msgpool.dat").write_bytes(data)
    code, found = decode("--dat", tmp_path / "msgpool.dat")
    assert code == 0 and [one["id"] for one in found] == [case["id_display"] for case in CASES]
    (tmp_path / "msgpool.dat").write_bytes(data[:-1])
    code, found = decode("--dat", tmp_path / "msgpool.dat")
    assert code == 1 and len(found) == len(CASES) and "message 15 of 15: the data ends" in found[-1]["error"]
    assert decode("--dat", tmp_path / "none")[0] == 2


@pytest.mark.parametrize(
    ("data", "said"),
    (
        (b"", "it is no msgpool.dat: it has 0 bytes, and one has 16 at least"),
        (
            b"PK\3\4 an archive of files",
            "it is no msgpool.dat: it begins with 504b0304.*, and one with 01",
        ),
        (bytes(16), "it is no msgpool.dat: it begins with 0000000000000000"),
        (b"\2".ljust(16, b"\0"), "it is of version 2, and this program knows version 1"),
        (b"\1".ljust(8, b"\0") + b"\xff" * 8, "message 1 of 18446744073709551615: the data ends"),
        (encode_pool([]) + b"?", "1 bytes follow the 0 messages"),
    ),
)
def test_messages_in_rejects_a_file_of_another_kind(data: bytes, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        list(messages_in(data))


def test_messages_in_yields_what_comes_before_the_place_where_a_file_was_cut() -> None:
    messages = [read_message(bytes.fromhex(case["wire"])) for case in CASES]
    data, found = encode_pool(messages), list[CapdMessage]()
    with pytest.raises(Malformed, match="message 3 of 15: the data ends"):
        for one in messages_in(data[: HEAD_BYTES + sum(len(one.encoded()) for one in messages[:2]) + 9]):
            found.append(one)
    assert found == messages[:2]


@settings(max_examples=settings().max_examples)
@given(st.binary(max_size=120))
def test_messages_in_reads_any_bytes_or_raises_malformed(data: bytes) -> None:
    for whole in (data, (1).to_bytes(8, "little") + data):
        found: list[CapdMessage] = []
        try:
            found += messages_in(whole)
        except Malformed:
            continue
        assert list(messages_in(encode_pool(found))) == found
