"""How an audit speaks to people."""

from __future__ import annotations

from router.audit.terminal import spelled
from router.cli.output import address_text

KEY, ID = "ab" * 32, "cd" * 32


def test_keys_are_spelled_as_in_the_tables_and_ids_as_they_are() -> None:
    text = f"The router {KEY} lost {ID}; {KEY}a and {KEY[:-1]} are neither."
    assert spelled(text, {KEY}) == f"The router {address_text(KEY)} lost {ID}; {KEY}a and {KEY[:-1]} are neither."
