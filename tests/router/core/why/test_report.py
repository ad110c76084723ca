"""A fate as JSON, and the reports between routers: numbers, no names, and nothing malformed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from test_fate import ALICE, AT_S, BOB, GROUP, IDS, NOW_NS, PETER, ROUTER, S, accepted, outward

from router.core.log.line import Line
from router.core.why.fate import Fate, Hop, Prospect, Trace, fate
from router.core.why.report import (
    REPORT_BYTES_MAX,
    NeighbourReport,
    RecipientCount,
    decode_report,
    encode_report,
    fate_json,
    followed,
    hop_json,
    may_hear,
    recipient_json,
    report,
    summary,
    turned_json,
)
from router.core.wire.text import clean

CDDL = Validator(Path(__file__).parents[4] / "cddl" / "inquiry.cddl")
CARA = "0c" * 32
REFUSED = Line(1, "refused", 99, 1, AT_S * S, peer=PETER, ids=IDS[0].hex(), reason="no-route", count=1)
TRACE = Trace(
    IDS[0], (accepted(BOB, ALICE, CARA),), (REFUSED,),
    (outward("acked", 104), outward("delivered", 106, ALICE), outward("delivered", 109, CARA)),
)  # fmt: skip


def whole() -> Fate:
    found = fate(TRACE, lambda *_: Prospect(), NOW_NS, 600)
    assert found is not None
    return found


def test_the_contract_s_keys() -> None:
    found = fate_json(whole(), whole().recipients)
    assert found["message"] == IDS[0].hex() and found["kind"] == "multicast" and found["group"] == GROUP
    assert (found["accepted_at"], found["accepted_ns"]) == ("2030-03-17 17:46:40.000 UTC", AT_S * S)
    assert found["states"] == {"acked": 1, "delivered": 2} and found["recipients_omitted"] == found["carried"] == 0
    [bob, *_] = found["recipients"]
    assert bob.keys() >= {"recipient", "state", "reason", "hops", "attempts", "next"}
    assert bob["hops"] == [
        {"router": ROUTER, "event": "acked", "time": "2030-03-17 17:46:44.000 UTC", "t": (AT_S + 4) * S}
    ]


def test_of_very_many_recipients_the_first() -> None:
    many = [replace(whole().recipients[0], recipient=f"{number:064x}") for number in range(1500)]
    found = fate_json(replace(whole(), recipients=tuple(many)), many)
    assert found["states"] == {"acked": 1500} and len(found["recipients"]) + found["recipients_omitted"] == 1500
    assert len(json.dumps(found)) < 800_000


def test_who_was_turned_away() -> None:
    assert turned_json(TRACE) == [
        {"event": "refused", "reason": "no-route", "from": PETER, "time": "2030-03-17 17:46:40.000 UTC", "t": AT_S * S}
    ]


# -- between routers ---------------------------------------------------------------------------------------------


def line(event: str, peer: str) -> Line:
    return Line(1, event, 100, 1, 5, peer=peer, reason="duplicate" if event == "duplicate" else "no-route")


def test_a_neighbour_may_ask_about_what_was_accepted_from_it() -> None:
    """The neighbour hears nothing about the same message if others brought it."""
    trace = replace(TRACE, turned=(REFUSED, line("refused", BOB), line("duplicate", CARA)))
    assert may_hear(trace, PETER) == TRACE
    twice = replace(trace, accepted=(Line(1, "accepted", 90, 1, 5, peer=BOB), *trace.accepted))
    assert may_hear(twice, PETER) == TRACE


def test_who_only_received_a_message_hears_nothing_of_it() -> None:
    assert may_hear(TRACE, BOB) is None
    assert may_hear(replace(TRACE, accepted=(), turned=()), PETER) is None


@pytest.mark.parametrize("event", ["duplicate", "refused"])
def test_of_a_copy_that_was_turned_away_it_hears_that_alone(event: str) -> None:
    """The neighbour may have received the message and sent it back, or found it somewhere, so the message's fate is not
    its business."""
    mine, others = line(event, BOB), line("refused", CARA)
    heard = may_hear(replace(TRACE, turned=(others, mine)), BOB)
    assert heard == Trace(IDS[0], turned=(mine,))
    assert fate(heard, lambda *_: Prospect(), NOW_NS, 600) is None
    assert report(None, heard, BOB, {}) == NeighbourReport(IDS[0].hex(), 0, (RecipientCount(event, mine.reason, 1, 5),))


def test_it_hears_numbers_and_no_names() -> None:
    told = report(whole(), TRACE, PETER, {})
    assert told.outcomes == (
        RecipientCount("acked", None, 1, (AT_S + 4) * S), RecipientCount("delivered", None, 2, (AT_S + 9) * S),
    )  # fmt: skip
    text = encode_report(told).decode()
    assert not any(key in text for key in (BOB, ALICE, CARA, ROUTER, GROUP)) and "delivered" in text


def test_what_is_behind_the_next_router_stands_for_what_it_took() -> None:
    beyond = {
        BOB: NeighbourReport("", 5, (RecipientCount("delivered", None, 4, 9), RecipientCount("queued", None, 1, 0, 1)))
    }
    told = report(whole(), TRACE, PETER, beyond)
    assert told.outcomes == (
        RecipientCount("delivered", None, 4, 9, 1), RecipientCount("queued", None, 1, 0, 2),
        RecipientCount("delivered", None, 2, (AT_S + 9) * S),
    )  # fmt: skip
    silent = report(whole(), TRACE, PETER, {BOB: NeighbourReport("", problem="it did not answer")})
    mine = report(whole(), TRACE, PETER, {}).outcomes
    assert silent.outcomes == (mine[0], RecipientCount("unknown", "it did not answer", 1, 0, 1), *mine[1:])
    assert summary("core", silent) == (
        "core has taken custody; of its recipients: 1 acked, 2 delivered; of those at routers behind it: 1 unknown "
        "(it did not answer)"
    )


def test_of_what_was_turned_away_it_hears_its_own_part() -> None:
    trace = replace(TRACE, accepted=(), turned=(REFUSED, Line(1, "duplicate", 100, 1, 5, peer=BOB)))
    assert report(None, trace, PETER, {}).outcomes == (RecipientCount("refused", "no-route", 1, AT_S * S),)


def test_a_report_that_was_written_is_read() -> None:
    told = NeighbourReport(
        "ab" * 32,
        7,
        (RecipientCount("refused", "no-route", 2, 9), RecipientCount("queued", None, 1, 0, 3)),
        "a problem",
    )
    assert decode_report(encode_report(told)) == told


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b'{"why":5}', b'{"why":{}}', b"[" * 100_000, b"\xff", b" " * (REPORT_BYTES_MAX + 1),
        b'{"why":{"message":"a","accepted_ns":-1,"outcomes":[],"problem":""}}',
        b'{"why":{"message":"a","accepted_ns":1,"outcomes":[["x",null,1.5,0,0]],"problem":""}}',
        b'{"why":{"message":"a","accepted_ns":1,"outcomes":[["x",null,1,0]],"problem":""}}',
        b'{"why":{"message":"a","accepted_ns":1,"outcomes":[[1,null,1,0,0]],"problem":""}}',
        b'{"why":{"message":"a","accepted_ns":1,"outcomes":{"a":1},"problem":""}}',
        b'{"why":{"message":"a","accepted_ns":true,"outcomes":[],"problem":""}}',
    ],
)  # fmt: skip
def test_what_is_no_report(text: bytes) -> None:
    assert decode_report(text) is None


WORDS = st.text(max_size=50)
GOOD = st.integers(0, (1 << 63) - 1)
NUMBERS = GOOD | GOOD | GOOD | GOOD | st.integers() | st.booleans() | st.floats(allow_nan=False)
ROWS = st.tuples(WORDS, st.none() | WORDS, NUMBERS, NUMBERS, NUMBERS) | st.lists(NUMBERS | WORDS, max_size=6)
SAID = st.fixed_dictionaries(
    {"message": WORDS, "accepted_ns": NUMBERS, "outcomes": st.lists(ROWS, max_size=4), "problem": WORDS}
)


@given(st.binary(max_size=80) | SAID.map(lambda said: json.dumps({"why": said}).encode()))
def test_any_bytes_are_a_report_or_none(text: bytes) -> None:
    """An accepted report is bounded, safe to print on a terminal, and unchanged when it is passed on."""
    told = decode_report(text)
    if told is None:
        return
    assert decode_report(encode_report(told)) == told and len(told.message) <= 64
    assert clean(told.problem) == told.problem
    numbers = [told.accepted_ns, *(number for one in told.outcomes for number in (one.count, one.at_ns, one.beyond))]
    assert all(type(number) is int and number >> 63 == 0 for number in numbers)
    for one in told.outcomes:
        assert clean(one.state, 40) == one.state and (one.reason is None or clean(one.reason, 40) == one.reason)


@given(
    st.builds(
        NeighbourReport, st.text("0123456789abcdef", max_size=64), st.integers(0, 1 << 62),
        st.lists(st.builds(
            RecipientCount, st.text("abc-", max_size=40), st.none() | st.text("abc-", max_size=40),
            *[st.integers(0, 99)] * 3,
        )).map(tuple), st.text("abc ", max_size=99),
    )
)  # fmt: skip
def test_any_report_is_read_as_it_was_written(told: NeighbourReport) -> None:
    assert decode_report(encode_report(told)) == told


def test_a_report_is_what_the_cddl_says() -> None:
    told = report(whole(), TRACE, PETER, {})
    result = CDDL.validate(json.loads(encode_report(told)), "report")
    assert result, result.format()


def test_what_a_neighbour_wrote_is_cleaned() -> None:
    raw = encode_report(NeighbourReport("ab", 1, (RecipientCount("x\x1b[31m" + "y" * 90, None, 1, 1),), "two\nlines"))
    found = decode_report(raw)
    assert found is not None and found.problem == "twolines"
    assert found.outcomes[0].state == "x[31m" + "y" * 35


def test_hops_at_the_next_router() -> None:
    bob = whole().recipients[0]
    told = NeighbourReport(
        "", 77, (RecipientCount("delivered", None, 2, 88), RecipientCount("refused", "no-route", 1, 99, 1))
    )
    found = followed(bob, told)
    assert found.hops == (
        *bob.hops, Hop(BOB, "accepted", 77), Hop(BOB, "delivered", 88, None, 2), Hop("", "refused", 99, "no-route"),
    )  # fmt: skip
    said = "of its recipients: 2 delivered; of those at routers behind it: 1 refused (no-route)"
    assert (found.state, found.next) == ("acked", f"nothing here: 04040404… has taken custody; {said}")
    assert recipient_json(found)["hops_omitted"] == 0
    assert hop_json(found.hops[-1])["router"] is None and hop_json(found.hops[-2])["count"] == 2


def test_hops_there_come_before_those_behind_and_each_in_order_of_time() -> None:
    outcomes = [
        RecipientCount("delivered", None, 1, 50, 1), RecipientCount("queued", None, 1, 0),
        RecipientCount("delivered", None, 1, 90), RecipientCount("expired", None, 1, 80),
        RecipientCount("delivered", None, 2, 40, 2),
    ]  # fmt: skip
    found = followed(whole().recipients[0], NeighbourReport("", 77, tuple(outcomes)))
    assert [(hop.router, hop.event, hop.at_ns) for hop in found.hops[1:]] == [
        (BOB, "accepted", 77), (BOB, "expired", 80), (BOB, "delivered", 90), (BOB, "queued", 0),
        ("", "delivered", 40), ("", "delivered", 50),
    ]  # fmt: skip
    assert found.next.endswith("; of those at routers behind it: 3 delivered"), "of several routers it is one sum"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (NeighbourReport("", 77), "core owes it to nobody"),
        (
            NeighbourReport("", 0, (RecipientCount("duplicate", None, 1, 9),)),
            "core tells only of copies that it turned away: 1 duplicate",
        ),
        (
            NeighbourReport("", 77, (RecipientCount("delivered", None, 4, 9, 1),)),
            "core has taken custody; of those at routers behind it: 4 delivered",
        ),
    ],
)
def test_in_a_sentence(told: NeighbourReport, said: str) -> None:
    assert summary("core", told) == said


def test_a_router_that_says_nothing() -> None:
    found = followed(whole().recipients[0], NeighbourReport("", problem="it did not answer in time"))
    assert found.hops[-1] == Hop(BOB, "unknown", 0, "it did not answer in time")
    assert found.next == "nothing here; what happened there is not known: it did not answer in time"
    assert hop_json(found.hops[-1]) == {
        "router": BOB, "event": "unknown", "time": None, "reason": "it did not answer in time",
    }  # fmt: skip
