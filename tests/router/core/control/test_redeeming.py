"""Redeeming invitations by value: requested at each link-up until answered; until then nothing else is sent there."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, GROUP

from router.core.control.redeeming import AGAIN_S, LATER_S, UnansweredInvitation
from router.core.log.events import RouterChange
from router.core.neighbours.directory import Neighbour
from router.core.routing.effects import DialNeighbour, InvitationAnswered, TermsHeard
from router.core.wire.control import Join, decode_control, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import INVITE_ENDED, INVITE_EXPIRED, INVITE_NO_ROOM, INVITE_USED_UP, Reason
from router.core.wire.redemption import (
    AskTerms,
    Redeem,
    Redeemed,
    Terms,
    decode_redemption,
    encode_redemption,
    is_redemption,
)
from router.core.wire.succession import formers, make_succession

CORE, PEER = SigningKey(b"C" * 32), SigningKey(b"P" * 32)
SECRET = b"s" * 16
EXPIRY = expiry_min(WALL_S + 600)
OFFER = UnansweredInvitation(b"i" * 32, CORE.public, SECRET, WALL_S + 3600, "laptop")


def guest(**more: object) -> OneRouter:
    known = Neighbour(CORE.public, uplink=True, urls=("tls://core:1",)), Neighbour(PEER.public)
    one = OneRouter(*known, **more)  # type: ignore[arg-type]
    one.router.redeeming.given([OFFER], one.now())
    one.cycle()
    return one


def core_link(one: OneRouter) -> int:
    return one.link(CORE.public, role="router", owner=False)


def asked(one: OneRouter, link: int) -> list[Redeem]:
    """Return the requests sent to the inviter."""
    bodies = [open_message(wire).body for wire in one.told(link)]
    return [said for body in bodies if is_redemption(body) and isinstance(said := decode_redemption(body), Redeem)]


def answer(one: OneRouter, link: int, said: Redeemed, key: SigningKey = CORE) -> None:
    body = encode_redemption(said)
    one.bring(link, seal_unicast(key, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def answered(one: OneRouter) -> list[InvitationAnswered]:
    return [effect for effect in one.done if isinstance(effect, InvitationAnswered)]


def invited(one: OneRouter) -> list[dict[str, object]]:
    return [dict(event.fields) for event in one.events if isinstance(event, RouterChange) and event.event == "invite"]


YES = Redeemed(SECRET, None, ("join", "store"), 0)


def test_a_yes_is_committed_as_an_event_and_ends_the_asking() -> None:
    one = guest()
    assert DialNeighbour(CORE.public) in one.done
    link = core_link(one)
    assert [(said.secret, said.name) for said in asked(one, link)] == [(SECRET, "laptop")]
    answer(one, link, YES)
    assert answered(one) == [InvitationAnswered(OFFER.id, None, ("join", "store"), 0)]
    yes = {"invitation": OFFER.id, "change": "let-in", "peer": CORE.public, "rights": "join,store"}
    assert invited(one) == [yes]
    one.pass_time(AGAIN_S + 1)
    assert not asked(one, link) and not one.router.redeeming.is_open(CORE.public)


def test_it_asks_again_until_the_answer_comes_and_at_each_link_up() -> None:
    one = guest()
    link = core_link(one)
    one.told(link)
    one.pass_time(AGAIN_S - 1)
    assert not asked(one, link)
    one.pass_time(2)
    assert len(asked(one, link)) == 1
    one.router.link_down(link, one.now())
    assert len(asked(one, core_link(one))) == 1


def test_a_final_no_is_kept_with_its_reason_and_a_later_one_is_tried_again() -> None:
    one = guest()
    link = core_link(one)
    one.told(link)
    answer(one, link, Redeemed(SECRET, int(Reason.DISK_FULL)))
    assert not answered(one)
    said = "it cannot let us in yet: the disk of this node is nearly full; this node asks again"
    assert one.router.redeeming.problem_of(OFFER.id) == said
    answer(one, link, Redeemed(SECRET, int(INVITE_NO_ROOM)))
    assert one.router.redeeming.problem_of(OFFER.id) == (
        "it cannot let us in yet: this router has as many neighbours as its operator allows; its operator can raise "
        "limits.guests_max or remove neighbours, and this node asks again"
    )
    one.pass_time(LATER_S + 1)
    assert len(asked(one, link)) == 1
    answer(one, link, Redeemed(SECRET, int(INVITE_USED_UP)))
    assert answered(one) == [InvitationAnswered(OFFER.id, 194, (), 0)]
    assert (invited(one)[0]["change"], invited(one)[0]["because"]) == ("turned-away", "invite:used-up")


@pytest.mark.parametrize("of", ["another secret", "another router"])
def test_an_answer_that_nobody_asked_for_changes_nothing(of: str) -> None:
    one = guest()
    link = core_link(one)
    other = one.link(PEER.public, role="router")
    if of == "another secret":
        answer(one, link, Redeemed(b"x" * 16, None, ("join",)))
    else:
        answer(one, other, YES, PEER)
    assert not answered(one) and one.router.redeeming.is_open(CORE.public)


def test_it_gives_up_at_the_end_of_the_invitation_by_either_of_two_doubted_times() -> None:
    one = guest()
    one.ahead_s = 7200.0
    one.pass_time(10)
    assert not answered(one)
    one.ahead_s = 0.0
    one.pass_time(3600)
    assert answered(one) == [InvitationAnswered(OFFER.id, int(INVITE_EXPIRED), (), 0)]


def test_nothing_else_goes_to_the_inviter_before_it_has_answered() -> None:
    """The inviter would refuse a stranger's JOIN and messages for good, so they wait, and follow its acceptance in
    order."""
    one = guest(locals=[ALICE.public])
    app = one.link(ALICE.public)
    one.bring(
        app, seal_unicast(ALICE, ME.public, encode_control(Join(GROUP.public, False)), ttl_s=0, expiry_min=EXPIRY)
    )
    one.cycle()
    early = seal_multicast(GROUP, b"early", ttl_s=60, expiry_min=EXPIRY)
    one.bring(app, early)
    one.cycle()
    link = core_link(one)
    late = seal_multicast(GROUP, b"late", ttl_s=60, expiry_min=EXPIRY)
    one.bring(app, late)
    one.cycle()
    one.pass_time(6)
    wires = one.told(link)
    assert all(is_redemption(open_message(wire).body) for wire in wires) and not one.handed(link)
    answer(one, link, YES)
    one.cycle()
    bodies = [open_message(wire).body for wire in one.told(link)]
    assert [decode_control(body) for body in bodies if not is_redemption(body)] == [Join(GROUP.public, False)]
    assert [open_message(wire).body for wire in one.handed(link)] == [b"early", b"late"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason.UNSUPPORTED, "its router does not know invitations; its operator installs a newer version"),
        (Reason.MALFORMED, "it refused our request: the bytes are not a message of this protocol"),
        (
            Reason.EXPIRY_PASSED,
            "it cannot believe the time of our request: its clock is 2.0 hours ahead of ours; set the wrong one",
        ),
    ],
)
def test_a_request_that_is_refused_unread_lets_messages_pass_and_is_repeated_at_the_next_link_up(
    reason: Reason, said: str
) -> None:
    one = guest()
    link = one.link(CORE.public, role="router", owner=False, offset_s=7200.0)
    one.told(link)
    one.router.refused(link, 1, reason, "")
    assert one.router.redeeming.problem_of(OFFER.id) == said
    found = one.router.links.get(link)
    assert found is not None and not found.shut
    one.pass_time(60)
    assert not asked(one, link) and one.router.redeeming.is_open(CORE.public)
    one.router.link_down(link, one.now())
    assert len(asked(one, core_link(one))) == 1


def test_an_offer_that_is_withdrawn_is_not_asked_for_and_a_new_one_is_asked_for_at_once() -> None:
    one = guest()
    link = core_link(one)
    one.told(link)
    one.router.redeeming.given([], one.now())
    found = one.router.links.get(link)
    assert found is not None and not found.shut
    another = UnansweredInvitation(b"j" * 32, CORE.public, b"t" * 16, WALL_S + 60)
    one.router.redeeming.given([another], one.now())
    one.cycle()
    assert [said.secret for said in asked(one, link)] == [b"t" * 16]


def test_no_repr_shows_the_secret() -> None:
    one = guest()
    for shown in (repr(OFFER), repr(one.router.redeeming)):
        assert SECRET.hex() not in shown and repr(SECRET) not in shown


def asks_of_terms(one: OneRouter, link: int) -> int:
    bodies = [open_message(wire).body for wire in one.told(link)]
    return sum(is_redemption(body) and decode_redemption(body) == AskTerms() for body in bodies)


def tell(one: OneRouter, link: int, said: Terms) -> list[TermsHeard]:
    """Send the inviter's statement; return what is kept of it."""
    one.bring(link, seal_unicast(CORE, ME.public, encode_redemption(said), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    found = [effect for effect in one.done if isinstance(effect, TermsHeard)]
    one.done.clear()
    return found


def test_who_has_answered_is_asked_for_our_terms_once_on_each_link_and_after_each_answer() -> None:
    one = guest()
    link = core_link(one)
    assert asks_of_terms(one, link) == 0, "it is asked to let us in first"
    answer(one, link, YES)
    assert asks_of_terms(one, link) == 1
    one.pass_time(60)
    assert asks_of_terms(one, link) == 0
    ended = Terms(int(INVITE_ENDED), (), EXPIRY)
    assert tell(one, link, ended) == [TermsHeard(CORE.public, 198, (), EXPIRY)]
    one.router.link_down(link, one.now())
    again = core_link(one)
    assert asks_of_terms(one, again) == 1
    assert tell(one, again, Terms(None, ("join",))) == [TermsHeard(CORE.public, None, ("join",), 0)]
    one.router.redeeming.given([OFFER], one.now(), [CORE.public])
    one.cycle()
    assert asks_of_terms(one, again) == 0
    answer(one, again, Redeemed(SECRET, int(INVITE_USED_UP)))
    assert asks_of_terms(one, again) == 1, "a refusal takes no right that we have"


def test_a_node_that_remembers_who_let_it_in_asks_at_once_and_hears_nobody_else() -> None:
    one = OneRouter(Neighbour(CORE.public), Neighbour(PEER.public))
    core, peer = core_link(one), one.link(PEER.public, role="router", owner=False)
    assert asks_of_terms(one, core) == 0 == asks_of_terms(one, peer)
    assert tell(one, core, Terms(None, ("join",))) == [], "it was not asked"
    one.router.redeeming.given([], one.now(), [CORE.public])
    one.cycle()
    assert asks_of_terms(one, core) == 1
    assert tell(one, core, Terms(None, ("join",))) == [TermsHeard(CORE.public, None, ("join",), 0)]


def test_an_invitation_by_a_key_that_was_followed_since_is_redeemed_at_the_one_that_has_its_place() -> None:
    """The link names the old key for good; what its router says of our rights is noted beside it."""
    one, new = guest(), SigningKey(b"N" * 32)
    was = formers([make_succession(CORE, new, WALL_S, WALL_S + 60)])
    one.link(new.public, role="router", owner=False, was=was)
    assert DialNeighbour(new.public) in one.done or one.router.redeeming.is_open(new.public)
    link = one.link(new.public, role="router", owner=False, was=was)
    assert [(said.secret, said.name) for said in asked(one, link)] == [(SECRET, "laptop")]
    answer(one, link, YES, new)
    assert answered(one) == [InvitationAnswered(OFFER.id, None, ("join", "store"), 0)]
    assert not one.router.redeeming.is_open(new.public) and not one.router.redeeming.is_open(CORE.public)
    said = seal_unicast(new, ME.public, encode_redemption(Terms(None, ("join",))), ttl_s=0, expiry_min=EXPIRY)
    one.bring(link, said)
    one.cycle()
    assert [it for it in one.done if isinstance(it, TermsHeard)] == [TermsHeard(CORE.public, None, ("join",), 0)]
