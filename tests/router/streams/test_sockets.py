"""Prefixes of addresses, remainders of writes, errors in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.streams.sockets import Acceptor, _without, prefix_of, words
from router.transport import Stream, unheard


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("127.0.0.1", "127.0.0.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3::1", "2001:db8:1::/56"),
        ("2001:db8:1:1ff::1", "2001:db8:1:100::/56"),
        ("fe80::1%eth0", "fe80::/56"),
    ],
)
def test_prefixes(address: str, prefix: str) -> None:
    assert prefix_of(address) == prefix


@given(st.lists(st.binary(max_size=5)), st.integers(0, 30))
def test_what_remains_of_the_parts(parts: list[bytes], sent: int) -> None:
    assert b"".join(_without(parts, sent)) == b"".join(parts)[sent:]


def test_errors_read_as_part_of_a_sentence() -> None:
    assert words(ConnectionRefusedError(111, "Connection refused")) == "connection refused"
    assert words(ValueError("No")) == "no"
    assert words(KeyboardInterrupt()) == "keyboardInterrupt"


def test_an_acceptor_reads_as_a_sentence() -> None:
    async def admit(sock: object, where: str) -> Stream:
        raise AssertionError

    async def handle(stream: Stream) -> None:
        raise AssertionError

    acceptor = Acceptor(admit, handle, unheard, 7)
    assert repr(acceptor) == "<Acceptor with 0 of at most 7 connections open>"
