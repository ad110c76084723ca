"""A message's body in words."""

from __future__ import annotations

import pytest

from router.cli.body_text import readable


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"hello", "hello"),
        ("grüße\nan alle".encode(), "grüße ⏎ an alle"),
        (bytes.fromhex("8101"), "[1]"),
        (bytes.fromhex("82028101"), "[2, [1]]"),
        (bytes.fromhex("8202810100"), "8202810100"),
        (b"\xff", "ff"),
        (b"\x00" * 65, "00" * 64 + " … (65 bytes)"),
        (b"", ""),
    ],
)
def test_body_is_shown_without_loss_where_it_is_short(body: bytes, shown: str) -> None:
    assert readable(body) == shown
