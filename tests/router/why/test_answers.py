"""The answer if an id prefix fits no message or several: it quotes the prefix as typed."""

from __future__ import annotations

import pytest

from router.core.log.line import Line
from router.core.why.fate import SPOILT_TOLD, Trace
from router.core.wire.text import key_text
from router.disk.log.search import CANDIDATES_MAX, Candidate, FoundEvents, Unnamed
from router.why.answers import WHERE_ELSE, not_one, one

IDS = [b"\x3f\x9a" + bytes([number]) * 30 for number in range(1, CANDIDATES_MAX + 2)]
TEXTS = [key_text("msg", one) for one in IDS]


def without_remedy(typed: str, found: FoundEvents) -> str:
    return str(not_one(typed, found)["error"]).removesuffix(f"; {WHERE_ELSE}")


def said(typed: str, *ids: bytes) -> str:
    return without_remedy(typed, FoundEvents(None, tuple(Candidate(one, 5) for one in ids), 0, 0, 0, 0))


@pytest.mark.parametrize("typed", ["3f9a", "3f9a0101010101010102", "3f9a01" * 10, TEXTS[0][:25] + "q", TEXTS[0][:12]])
def test_no_message_is_said_of_all_that_was_typed_and_of_no_more(typed: str) -> None:
    told = f"no message whose id begins with {typed} is in the log of this router, which is empty"
    assert said(typed) == said(f" {typed.upper()}… ") == told


def test_whom_else_to_ask_is_told_where_nothing_is_found() -> None:
    assert str(not_one("3f9a", FoundEvents(None, (), 0, 0, 0, 0))["error"]).endswith(f"; {WHERE_ELSE}")


def test_several_in_hex() -> None:
    told = f"several message ids begin with 3f9a: {IDS[0].hex()[:16]}, {IDS[1].hex()[:16]}; give more digits"
    assert said("3f9a", *IDS[:2]) == told


def test_several_in_the_text_form() -> None:
    typed = TEXTS[0][:7]
    told = f"several message ids begin with {typed}: {TEXTS[0][:20]}, {TEXTS[1][:20]}; give more digits"
    assert said(typed, *IDS[:2]) == told


def test_of_very_many_the_first() -> None:
    told = said("3f9a", *IDS)
    assert told.endswith(f"{IDS[CANDIDATES_MAX - 1].hex()[:16]} and more; give more digits")


def test_that_events_are_missing_is_told_where_nothing_is_found() -> None:
    told = without_remedy("3f9a", FoundEvents(None, (), 5, 10**18, 4, 0, missing=((8, 9), (12, 25))))
    assert told.endswith("; the events 8 to 9, 12 to 25 are missing in it, and whether they told of it cannot be known")
    many = FoundEvents(None, (), 5, 10**18, 4, 0, missing=tuple((at, at) for at in range(10, 16)))
    assert "14 to 14 and 1 more span are missing" in without_remedy("3f9a", many)


def test_that_it_may_be_among_those_that_were_counted_only() -> None:
    def told(messages: int) -> str:
        unnamed = Unnamed(messages, 10**18, 2 * 10**18)
        return without_remedy("3f9a", FoundEvents(None, (), 5, 10**18, 0, 0, unnamed=unnamed))

    assert told(1).endswith(
        "; one message was turned away at 2033-05-18 03:33:20.000 UTC and counted without its id: it may be this one"
    )
    assert told(412).endswith(
        "; 412 messages were turned away from 2001-09-09 01:46:40.000 UTC to 2033-05-18 03:33:20.000 UTC and counted "
        "without their ids (log.refused_percent, log.refused_ids_per_s): it may be one of these"
    )


def test_files_that_are_not_believed_are_named() -> None:
    """If nothing is found, all such files are named; for a message, those that may hold its events."""
    spoilt = tuple((at, f"{at}.jsonl") for at in range(1, SPOILT_TOLD + 3))
    cause = "not believed, for its bytes cannot be read or are not those that were signed: events of it are not counted"
    assert without_remedy("3f9a", FoundEvents(None, (), 5, 10**18, 0, 0, spoilt=spoilt[:1])).endswith(
        f"; 1.jsonl is {cause}"
    )
    many = without_remedy("3f9a", FoundEvents(None, (), 5, 10**18, 0, 0, spoilt=spoilt))
    assert f"{SPOILT_TOLD}.jsonl and 2 more files are not believed, for their bytes" in many
    trace = Trace(IDS[0], (Line(1, "accepted", 2),))
    assert (
        one(FoundEvents(trace, (), 1, 1, 0, 0, spoilt=spoilt[:2]), trace, None, {})["incomplete"]
        == f"2.jsonl is {cause}"
    )
    assert one(FoundEvents(trace, (), 1, 1, 0, 0, spoilt=spoilt[:1]), trace, None, {})["complete"]


def test_that_all_later_events_are_missing_is_told() -> None:
    told = without_remedy("3f9a", FoundEvents(None, (), 5, 10**18, 4, 0, missing=((8, 9), (12, 0))))
    assert "the events 8 to 9, from 12 on are missing in it" in told


def test_one_segment_without_an_index_is_told_in_the_singular() -> None:
    told = without_remedy("3f9a", FoundEvents(None, (), 5, 10**18, 4, 1))
    assert "1 segment has no index yet and was not searched" in told


def test_what_was_not_searched_is_told_where_nothing_is_found_and_where_something_is() -> None:
    found = FoundEvents(None, (), 5, 10**18, 4, 2, ("7.jsonl", "9.jsonl"), is_behind=True)
    told = without_remedy("3f9a", found)
    reasons = (
        "2 segments have no index yet and were not searched: ask again; "
        "7.jsonl, 9.jsonl are gone or damaged, and what they held is not known; "
        "the newest events wait in the store because the log cannot be written now, and were not searched"
    )
    assert told.endswith(f"are no longer kept (log.keep_s, log.keep_bytes); {reasons}")
    answer = one(found, Trace(IDS[0]), None, {})
    assert (answer["complete"], answer["incomplete"]) == (False, reasons)
    whole = FoundEvents(None, (), 5, 10**18, 4, 0)
    assert (one(whole, Trace(IDS[0]), None, {})["complete"], one(whole, Trace(IDS[0]), None, {})["incomplete"]) == (
        True, None,
    )  # fmt: skip


def test_that_asking_again_helps_is_said_only_where_it_does() -> None:
    answer = one(FoundEvents(None, (), 5, 10**18, 4, 0), Trace(IDS[0], is_cut=True), None, {})
    assert (
        not answer["complete"] and "more lines about it" in answer["incomplete"] and "again" not in answer["incomplete"]
    )
