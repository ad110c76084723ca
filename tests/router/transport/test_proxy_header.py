"""The header that says from where a stream comes: as the PROXY protocol has it, and read back."""

from __future__ import annotations

import pytest

from router.transport.proxy_header import HEAD_BYTES, BadHeader, address_in, header_for, length_of


def read(header: bytes) -> tuple[str, int]:
    head, rest = header[:HEAD_BYTES], header[HEAD_BYTES:]
    assert length_of(head) == len(rest)
    return address_in(head, rest)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("192.0.2.7:4100", "192.0.2.7", 4100),
        ("[2001:db8::7]:65535", "2001:db8::7", 65535),
        ("[fe80::1%eth0]:1", "fe80::1", 1),
        ("", "", 0),
    ],
)
def test_an_address_is_read_back(address: str, host: str, port: int) -> None:
    assert read(header_for(address)) == (host, port)


def test_the_bytes_are_those_of_the_protocol() -> None:
    head = bytes.fromhex("0d0a0d0a000d0a515549540a")
    assert header_for("192.0.2.7:4100") == head + bytes.fromhex("2111000c c0000207 00000000 1004 0000")
    assert header_for("") == head + bytes.fromhex("20000000")


def test_what_else_such_a_header_may_hold_is_skipped() -> None:
    header = header_for("192.0.2.7:4100")
    longer = header[:14] + (15).to_bytes(2, "big") + header[16:] + b"\x04\0\0"
    assert read(longer) == ("192.0.2.7", 4100)


@pytest.mark.parametrize(
    "bad", [b"", header_for("")[:-1], b"x" * 16, header_for("")[:12] + b"\x31\0\0\0", header_for("1.2.3.4:5")[:20]]
)
def test_bytes_that_are_no_such_header_are_refused(bad: bytes) -> None:
    head, rest = bad[:HEAD_BYTES], bad[HEAD_BYTES:]
    with pytest.raises(BadHeader):
        length_of(head)
        address_in(head, rest)
