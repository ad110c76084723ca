"""The fate of a message from the lines of a log: each state, each reason, and what happens next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace as changed

from router.core.log.line import Line
from router.core.why.fate import ENDS, HOPS_MAX, OVER_S, Carrier, Fate, Prospect, Recipient, Trace, fate, time_text
from router.core.why.report import fate_json
from router.core.wire.lifetime import expiry_min, expiry_s

ROUTER, GROUP, ALICE, BOB, PETER = (f"{number:02x}" * 32 for number in range(1, 6))
IDS = [bytes([number]) * 32 for number in range(7, 10)]
S = 1_000_000_000
AT_S = 1_900_000_000
NOW_NS = (AT_S + 20) * S
WEEK_S = 7 * 86_400
GONE = "are missing or cannot be read"


def accepted(*recipients: str, seq: int = 100, first: int = 40, ttl: int = 60) -> Line:
    """Return the acceptance of three messages with the arrival numbers 40, 41 and 42."""
    minute = expiry_min(AT_S + 3600)
    return Line(
        1, "accepted", seq, 3, AT_S * S, 1, ROUTER, "b0", kind="multicast", group=GROUP, peer=PETER, link=2,
        first=first, count=3, ids=b"".join(IDS).hex(), sizes=[9] * 3, ttls=[ttl] * 3, expiries=[minute] * 3,
        recipients=recipients,
    )  # fmt: skip


def outward(
    event: str,
    seq: int,
    recipient: str = BOB,
    ranges: tuple[tuple[int, int], ...] = ((40, 3),),
    reason: str | None = None,
) -> Line:
    return Line(
        1, event, seq, 1, (AT_S + seq - 100) * S, 1, ROUTER, "b0", recipient=recipient, link=3, count=1,
        ranges=ranges, parcel=40, reason=reason, attempt=0, depth=1, duration_ns=0,
    )  # fmt: skip


def away(recipient: str, first: int, index: int) -> Prospect:
    assert (first, index) == (40, 1)
    return Prospect("bob" if recipient == BOB else "")


def told(
    *lines: Line,
    holes: tuple[tuple[int, int], ...] = (),
    prospect: Callable[[str, int, int], Prospect] = away,
    now_ns: int = NOW_NS,
) -> Recipient:
    """Return the fate of the second message for Bob."""
    found = fate(Trace(IDS[1], (accepted(BOB),), (), lines, holes), prospect, now_ns, WEEK_S)
    assert found is not None
    [one] = found.recipients
    return one


def test_the_files_that_are_not_believed_are_named_as_far_as_they_may_tell_of_it() -> None:
    spoilt = ((1, "a.jsonl"), (101, "b.jsonl"), (120, "c.jsonl"))
    for count, said in ((2, "b.jsonl is"), (3, "b.jsonl, c.jsonl are")):
        trace = Trace(IDS[1], (accepted(BOB),), holes=((1, 90), (101, 110)), spoilt=spoilt[:count])
        found = fate(trace, is_so(is_owed=False), NOW_NS, WEEK_S)
        assert found is not None
        assert found.recipients[0].next == f"cannot be known: the events 101 to 110 {GONE} ({said} not believed)"


def test_whether_there_may_have_been_more_attempts() -> None:
    """Events are missing only if the hole is between the acceptance and the end."""
    lines = outward("forwarded", 111), outward("delivered", 112)
    for holes, is_open_partial, is_ended_partial in (
        ((), False, False), (((1, 99),), False, False), (((105, 110),), True, True), (((113, 0),), True, False),
    ):  # fmt: skip
        assert told(lines[0], holes=holes).is_partial == is_open_partial
        assert told(*lines, holes=holes).is_partial == is_ended_partial


def test_of_what_only_the_store_accepts_an_end_may_have_escaped_though_nothing_is_missing() -> None:
    trace = Trace(IDS[1], (accepted(BOB, seq=0),), is_by_store=True)
    for is_owed, state in ((True, "queued"), (False, "unknown")):
        found = fate(trace, is_so(is_owed=is_owed), NOW_NS, WEEK_S)
        assert found is not None
        [one] = found.recipients
        assert one.state == state and one.is_partial


def is_so(**facts: object) -> Callable[[str, int, int], Prospect]:
    return lambda *_: Prospect("bob", **facts)  # type: ignore[arg-type]


def test_the_message_itself() -> None:
    found = fate(Trace(IDS[2], (accepted(), accepted(BOB, ALICE, seq=200))), lambda *_: Prospect(), NOW_NS, WEEK_S)
    assert isinstance(found, Fate)
    assert (found.message, found.kind, found.signer, found.brought_by) == (IDS[2].hex(), "multicast", GROUP, PETER)
    assert (found.accepted_ns, found.times) == (AT_S * S, 2)
    assert found.until_s == AT_S + 60
    assert [(one.recipient, one.state) for one in found.recipients] == [(BOB, "queued"), (ALICE, "queued")]


def test_never_accepted() -> None:
    assert fate(Trace(IDS[0], (), (accepted(),)), away, NOW_NS, WEEK_S) is None


@pytest.mark.parametrize("state", ENDS)
def test_each_end(state: str) -> None:
    one = told(outward("forwarded", 103), outward(state, 105, reason="ttl-expired"))
    assert (one.state, one.reason, one.attempts, one.until_s) == (state, "ttl-expired", 1, None)
    assert [(hop.event, hop.at_ns, hop.router) for hop in one.hops] == [
        ("forwarded", (AT_S + 3) * S, ROUTER), (state, (AT_S + 5) * S, ROUTER),
    ]  # fmt: skip


def test_of_two_ends_the_first_in_precedence_counts() -> None:
    assert told(outward("expired", 103, reason="ttl-expired"), outward("delivered", 105)).state == "delivered"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("delivered", "nothing: the app has settled it"),
        ("acked", "nothing here: 04040404… has taken custody; `router why` there, or --follow, tells the rest"),
        ("unconfirmed", "nothing: it was written, and with ttl 0 nobody keeps or confirms it"),
        ("expired", "nothing: the message waited longer than its ttl allows"),
    ],
)
def test_after_an_end_nothing_is_next(state: str, said: str) -> None:
    assert told(outward(state, 105, reason="ttl-expired")).next == said


def carried(
    *recipients: str, now_ns: int = NOW_NS, is_seeking: bool = True, is_brought: bool = False, **more: tuple[Line, ...]
) -> str:
    """Return what is next at the service that carries groups, here Bob, which has taken the message."""
    lines = tuple(outward("delivered", 103, one) for one in (BOB, *recipients)) + more.pop("outward", ())
    acceptances = (accepted(BOB, *recipients), *more.pop("accepted", ()))
    trace = Trace(IDS[1], acceptances, (), lines, noted=more.pop("noted", ()))
    found = fate(trace, lambda *_: Prospect("peter"), now_ns, WEEK_S, Carrier(BOB, is_seeking, lambda _: is_brought))
    assert found is not None
    assert found.carried == 1
    assert all(one.next == "nothing: the app has settled it" for one in found.recipients if one.recipient == ALICE)
    return found.recipients[0].next


def test_what_the_service_that_carries_groups_has_taken_nobody_has_read_by_that() -> None:
    end = time_text(expiry_s(expiry_min(AT_S + 3600)) * S)
    nobody = f"nobody has read it yet, as far as the log of this node tells; it expires {end}"
    keeps = "the service keeps it until its end"
    assert carried() == f"{keeps} and looks for readers at other nodes; {nobody}"
    assert carried(is_seeking=False) == f"{keeps} for readers at other nodes; {nobody}", (
        "a leaf, or a node that is stopped"
    )
    assert carried(ALICE) == carried().replace("nobody has read it", "no other node has taken it")
    assert carried(ALICE, is_brought=True) == carried(is_seeking=False).replace(
        "nobody has read it yet", "it came from another node, and none has taken it from here yet"
    )


def test_what_that_service_has_sent_on_or_given_up_is_told() -> None:
    copy = changed(accepted(PETER, seq=104, first=90), kind="copy")
    taken = (outward("acked", 105, PETER, ((90, 3),)),)
    sent_on = "nothing here: the service has sent it on, and another router has taken custody"
    assert carried(accepted=(copy,), outward=taken) == sent_on
    assert carried(accepted=(copy,)) == carried(), "a copy that nobody has taken"
    over = "nothing: its time is over, and nobody has read it, as far as the log of this node tells"
    assert carried(now_ns=NOW_NS + 3600 * S) == over
    noted = changed(outward("service_noted", 106), signer=BOB, reason="pubsub:limit")
    ended = (
        "the service does not send it on of itself any more, as noted, and keeps it for other nodes that ask; nobody"
    )
    assert carried(noted=(noted,)).startswith(ended)


def test_what_is_about_others_is_not_told() -> None:
    """The lines are about another message of the parcel, another recipient, and an earlier life of the arrival
    numbers."""
    one = told(
        outward("delivered", 104, ranges=((40, 1), (42, 1))), outward("delivered", 105, ALICE), outward("expired", 99),
        outward("forwarded", 106, ranges=((41, 1),)), outward("deferred", 107, reason="rate-limited"),
    )  # fmt: skip
    assert (one.state, one.attempts, [hop.event for hop in one.hops]) == ("queued", 1, ["forwarded", "deferred"])
    assert one.reason == "rate-limited" and one.until_s == AT_S + 60


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "waits for bob, who is away; it is handed over when bob connects to this router"),
        ({"is_dialled": True}, "waits for bob, who is away; it is dialled again and again"),
        ({"is_dialled": True, "problem": "no route"}, "dialled again and again (the last attempt: no route)"),
        ({"is_connected": True, "ahead": 7}, "waits its turn to bob, which is connected; 7 messages are queued there"),
        ({"is_connected": True, "retry_s": 12.3}, "bob refused it for now (no reason was given); it is sent again in"),
        ({"is_connected": True, "in_flight": True}, "bob has it and has not settled it"),
        ({"is_running": False}, "waits for bob, and for this router, which is stopped, to start again"),
    ],
)
def test_what_is_next(facts: dict[str, object], said: str) -> None:
    one = told(prospect=is_so(**facts))
    assert said in one.next
    assert one.next.endswith(f"; it expires {time_text((AT_S + 60) * S)}")
    assert one.state == ("in-flight" if "in_flight" in facts else "queued")


@pytest.mark.parametrize("is_connected", [True, False])
def test_for_who_is_blocked_nothing_waits(is_connected: bool) -> None:
    one = told(prospect=is_so(is_blocked=True, is_connected=is_connected, is_dialled=True))
    assert one.next == (
        "bob is blocked here (`router peer block`), and what waits for it is about to end as dropped; "
        "`router peer unblock` lets it in again, for what comes later"
    )


def test_past_its_time() -> None:
    one = told(now_ns=(AT_S + 60) * S)
    assert one.next.endswith("its time is over, and it is about to end as expired")


def test_the_reason_of_the_last_deferral() -> None:
    one = told(outward("deferred", 103, reason="disk-full"), prospect=is_so(is_connected=True, retry_s=2))
    assert "bob refused it for now (the disk of this node is nearly full); it is sent again in 2 s" in one.next


def test_a_hole_after_the_acceptance_makes_it_unknown() -> None:
    one = told(outward("forwarded", 103), holes=((7, 9), (104, 110), (200, 0)), prospect=is_so(is_owed=False))
    assert (one.state, one.next) == ("unknown", f"cannot be known: the events 104 to 110 {GONE}")
    assert told(holes=((7, 99),), prospect=is_so(is_owed=False)).state == "unaccounted", "what is before it is nothing"
    end = told(holes=((120, 0),), prospect=is_so(is_owed=False)).next
    assert end == f"cannot be known: the events 120 and all later ones {GONE}"


def test_a_hole_may_begin_before_the_acceptance_and_end_after_it() -> None:
    one = told(holes=((90, 110),), prospect=is_so(is_owed=False))
    assert (one.state, one.next) == ("unknown", f"cannot be known: the events 90 to 110 {GONE}")


def test_where_the_log_tells_more_than_is_read_no_fault_is_claimed() -> None:
    lines = (outward("forwarded", 103), outward("delivered", 104, ALICE))
    trace = Trace(IDS[1], (accepted(BOB, ALICE),), (), lines, is_cut=True)
    found = fate(trace, is_so(is_owed=False), NOW_NS, WEEK_S)
    assert found is not None
    [bob, alice] = found.recipients
    said = "cannot be known: the log tells more of it than the 3 lines that are read"
    assert (bob.state, bob.next, alice.state) == ("unknown", said, "delivered")
    queued = fate(trace, is_so(), NOW_NS, WEEK_S)
    assert queued is not None and queued.recipients[0].state == "queued"


def test_what_the_store_still_owes_is_not_lost_with_the_log() -> None:
    assert told(holes=((104, 110),)).state == "queued"


def test_one_missing_event() -> None:
    one = told(holes=((104, 104),), prospect=is_so(is_owed=False))
    assert one.next == "cannot be known: the event 104 is missing or cannot be read"


def without_store(*lines: Line, log_end_s: int, holes: tuple[tuple[int, int], ...] = (), now_s: int = 20) -> Recipient:
    """Return the fate, that many seconds after the acceptance, of a message with a ttl of 60 s."""
    prospect = is_so(is_owed=None, log_end_ns=(AT_S + log_end_s) * S)
    return told(*lines, holes=holes, prospect=prospect, now_ns=(AT_S + now_s) * S)


def test_without_a_store_the_log_alone_is_judged_and_no_fault_is_claimed() -> None:
    said = "not known: the log tells of no end{}; whether it is still queued only the store could tell; it {} {}"
    until = time_text((AT_S + 60) * S)
    one = without_store(log_end_s=10)
    assert (one.state, one.next, one.until_s) == ("pending", said.format("", "expires", until), AT_S + 60)
    late = without_store(log_end_s=60 + OVER_S - 1, now_s=1000)
    assert (late.state, late.next) == ("pending", said.format("", "was to expire", until))
    over = without_store(log_end_s=60 + OVER_S, now_s=1000)
    beyond = ", though it goes on after the message's time"
    assert (over.state, over.next) == ("unknown", said.format(beyond, "was to expire", until))


def test_without_a_store_what_was_handed_over_may_be_in_flight() -> None:
    assert without_store(outward("forwarded", 103), log_end_s=1000).state == "pending"
    back = without_store(outward("forwarded", 103), outward("deferred", 104, reason="disk-full"), log_end_s=1000)
    assert (back.state, back.reason) == ("unknown", "disk-full")


def test_without_a_store_ends_and_holes_count_as_ever() -> None:
    assert without_store(outward("delivered", 103), log_end_s=1000).state == "delivered"
    one = without_store(log_end_s=10, holes=((104, 110),))
    assert (one.state, one.next) == ("unknown", f"cannot be known: the events 104 to 110 {GONE}")


def test_neither_ended_nor_queued_is_a_fault() -> None:
    one = told(prospect=is_so(is_owed=False))
    assert one.state == "unaccounted" and "a fault" in one.next


def test_of_many_hops_the_first_and_the_last() -> None:
    lines = [outward("forwarded" if seq % 2 else "deferred", seq) for seq in range(101, 101 + 3 * HOPS_MAX)]
    one = told(*lines)
    assert len(one.hops) == HOPS_MAX and one.attempts == 3 * HOPS_MAX // 2 and one.hops_omitted == 2 * HOPS_MAX
    assert told(*lines[:HOPS_MAX]).hops_omitted == 0
    assert (one.hops[0].at_ns, one.hops[-1].at_ns) == (lines[0].t, lines[-1].t)


def test_the_ttl_is_capped_and_the_expiry_counts_too() -> None:
    long = changed(accepted(BOB, ttl=1 << 30))
    found = fate(Trace(IDS[1], (long,)), away, NOW_NS, 300)
    assert found is not None and found.until_s == AT_S + 300
    found = fate(Trace(IDS[1], (long,)), away, NOW_NS, WEEK_S)
    assert found is not None and AT_S + 3600 <= found.until_s < AT_S + 3660


def test_times_for_people() -> None:
    assert time_text(1_577_836_800_123_456_789) == "2020-01-01 00:00:00.123 UTC"


def copy_to(recipient: str, seq: int, first: int) -> Line:
    """Return the acceptance by which a service sends the second message on to one router."""
    line = accepted(recipient, seq=seq, first=first)
    return changed(
        line,
        kind="copy",
        peer=ALICE,
        n=1,
        count=1,
        ids=IDS[1].hex(),
        sizes=[9],
        ttls=[60],
        expiries=[expiry_min(AT_S + 3600)],
    )


def test_copies_that_a_service_sent_on_come_after_the_recipients_and_are_marked() -> None:
    lines = (
        outward("delivered", 110, ALICE), outward("acked", 111, BOB, ((50, 1),)),
        outward("expired", 112, PETER, ((51, 1),), "ttl-expired"),
    )  # fmt: skip
    trace = Trace(IDS[1], (accepted(ALICE), copy_to(BOB, 103, 50), copy_to(PETER, 104, 51)), (), lines)
    found = fate(trace, away, NOW_NS, WEEK_S)
    assert found is not None and found.kind == "multicast" and found.times == 1 and found.brought_by == PETER
    assert [(one.recipient, one.state, one.is_copy) for one in found.recipients] == [
        (ALICE, "delivered", False), (BOB, "acked", True), (PETER, "expired", True),
    ]  # fmt: skip
    told_json = fate_json(found, found.recipients)
    assert told_json["states"] == {"delivered": 1} and told_json["copies"] == {"acked": 1, "expired": 1}
    assert [one.get("copy") for one in told_json["recipients"]] == [None, True, True]


def test_a_service_that_asks_about_what_it_sent_on_hears_of_its_copies() -> None:
    trace = Trace(
        IDS[1], (copy_to(BOB, 103, 50), copy_to(PETER, 104, 51)), (), (outward("acked", 111, BOB, ((50, 1),)),)
    )
    found = fate(trace, is_so(is_owed=True), NOW_NS, WEEK_S)
    assert found is not None
    assert [(one.recipient, one.state) for one in found.recipients] == [(BOB, "acked"), (PETER, "queued")]
