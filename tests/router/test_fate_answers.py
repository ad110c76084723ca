"""What is said where the beginning of an id is that of no message, or of several: in the spelling that was typed."""

from __future__ import annotations

import pytest

from router.core.text import key_text
from router.disk.log_search import CANDIDATES_MAX, Candidate, Found
from router.fate_answers import not_one

IDS = [b"\x3f\x9a" + bytes([number]) * 30 for number in range(1, CANDIDATES_MAX + 2)]
TEXTS = [key_text("msg", one) for one in IDS]


def said(typed: str, *ids: bytes) -> str:
    return str(not_one(typed, Found(None, tuple(Candidate(one, 5) for one in ids), 0, 0, 0, 0))["error"])


@pytest.mark.parametrize("typed", ["3f9a", "3f9a0101010101010102", "3f9a01" * 10, TEXTS[0][:25] + "q", TEXTS[0][:12]])
def test_no_message_is_said_of_all_that_was_typed_and_of_no_more(typed: str) -> None:
    told = f"no message whose id begins with {typed} is in the log of this router, which is empty"
    assert said(typed) == said(f" {typed.upper()}… ") == told


def test_several_in_hex() -> None:
    told = f"several message ids begin with 3f9a: {IDS[0].hex()[:16]}, {IDS[1].hex()[:16]}; give more of it"
    assert said("3f9a", *IDS[:2]) == told


def test_several_in_the_text_form() -> None:
    typed = TEXTS[0][:7]
    told = f"several message ids begin with {typed}: {TEXTS[0][:20]}, {TEXTS[1][:20]}; give more of it"
    assert said(typed, *IDS[:2]) == told


def test_of_very_many_the_first() -> None:
    answer = not_one("3f9a", Found(None, tuple(Candidate(one, 5) for one in IDS), 0, 0, 0, 0))
    assert "and more; give" in answer["error"] and len(answer["candidates"]) == CANDIDATES_MAX
