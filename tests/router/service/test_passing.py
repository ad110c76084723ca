"""A host's record of copies and PULLs: outcomes find their tag, and nothing grows without a bound."""

from __future__ import annotations

from samples.core import ALICE, BOB, GROUP, IDS, MULTICASTS

from router.core.wire.link_items import Outcome, RecipientOutcome
from router.core.wire.message import message_id, with_via
from router.core.wire.reasons import Reason
from router.service.contract import HopOutcome
from router.service.passing import PULLS_AT_ONCE_MAX, Copies, PullsToSay
from router.service.roles.overlay import PullFrom

WIRE = MULTICASTS[1]
ID = message_id(WIRE)
TO_ALICE, TO_BOB = (with_via(WIRE, key.public) for key in (ALICE, BOB))


def outcome(*recipients: RecipientOutcome) -> Outcome:
    return Outcome(ID, recipients)


def test_copies_of_one_message_are_told_apart_by_their_router_and_each_is_told_once() -> None:
    copies = Copies()
    copies.expect(ID, TO_ALICE, "to alice")
    copies.expect(ID, TO_BOB, "to bob")
    acked = outcome(RecipientOutcome(BOB.public, "acked"))
    assert list(copies.hear(acked)) == [HopOutcome("to bob", ID, BOB.public, "acked")]
    assert list(copies.hear(acked)) == []
    copies.expect(ID, TO_BOB, "to bob")
    known = outcome(RecipientOutcome(BOB.public, "acked", Reason.DUPLICATE))
    assert list(copies.hear(known)) == [HopOutcome("to bob", ID, BOB.public, "acked", was_known=True)]
    expired = outcome(RecipientOutcome(ALICE.public, "expired", Reason.NEXT_AWAY))
    assert list(copies.hear(expired)) == [HopOutcome("to alice", ID, ALICE.public, "expired", Reason.NEXT_AWAY)]
    assert repr(copies) == "<0 of at most 10000 copies on their way>"


def test_a_unicast_that_names_no_next_router_is_told_of_by_whoever_took_it() -> None:
    copies = Copies()
    copies.expect(ID, WIRE, "sent")
    queued, acked = (outcome(RecipientOutcome(BOB.public, state)) for state in ("queued", "delivered"))
    assert list(copies.hear(queued)) == []
    assert list(copies.hear(acked)) == [HopOutcome("sent", ID, BOB.public, "delivered")]


def test_an_end_without_a_reason_is_not_taken_for_custody() -> None:
    copies = Copies()
    copies.expect(ID, TO_BOB, "x")
    dropped = outcome(RecipientOutcome(BOB.public, "dropped"))
    assert list(copies.hear(dropped)) == [HopOutcome("x", ID, BOB.public, "dropped", Reason.INTERNAL)]


def test_what_is_refused_has_no_tag_or_is_one_too_many_is_not_told() -> None:
    copies = Copies(most=1)
    copies.expect(ID, TO_ALICE, "")
    copies.expect(ID, TO_ALICE, "first")
    copies.expect(ID, TO_BOB, "second")
    acked = outcome(*(RecipientOutcome(key.public, "acked") for key in (ALICE, BOB)), RecipientOutcome(3, "acked"))
    copies.refused(ID, TO_BOB)
    assert list(copies.hear(acked)) == [], "the first gave way, the second was refused"


def test_pulls_are_said_together_by_router_and_group() -> None:
    pulls = PullsToSay()
    asked = [PullFrom(key.public, GROUP.public, id) for id in IDS[:2] for key in (ALICE, BOB)]
    assert [pulls.add(one) for one in asked] == [True, False, False, False]
    assert pulls.take() == [asked[::2], asked[1::2]]
    assert pulls.take() == [] and pulls.add(asked[0]), "the next one is the first again"
    for _ in range(PULLS_AT_ONCE_MAX):
        pulls.add(asked[0])
    assert [len(run) for run in pulls.take()] == [PULLS_AT_ONCE_MAX, 1]
