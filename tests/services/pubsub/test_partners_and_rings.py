"""The pub/sub services of several nodes find each other, by value: SUB, meetings, rings, and liars."""

from __future__ import annotations

import pytest
from rigs.pubsub_sides import NOW, Side, Sides
from samples.pubsub import T

from router.core.service.meetings import LetGo
from router.core.wire.address import parse_address
from router.core.wire.advert import make_advertisement
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.meeting import Meet
from router.core.wire.pubsub import Wanted, encode_wanted
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.meetings import partners
from services.pubsub.core.messages import (
    AskRings,
    Compare,
    Have,
    Member,
    Ring,
    TellRings,
    decode_message,
    encode_message,
)
from services.pubsub.reasons import MEET_FIRST

GROUPS = [SigningKey(bytes((13, number)) * 16).public for number in range(3)]


def met(*sides: Side, seconds: float = 10.0) -> Sides:
    """Return the nodes that long after the first one was linked with each other one."""
    found = Sides(*sides)
    for other in sides[1:]:
        found.link(sides[0], other)
    found.pass_time(seconds)
    return found


def test_a_wanted_group_is_joined_and_confirmed_and_let_go_of_again() -> None:
    one = Side(1, GROUPS[:1])
    assert one.take(o.TakePart) == [o.TakePart(GROUPS[0], "ids")]
    one.hear(o.Wanted(GROUPS[0], True))
    assert one.take(o.TakePart) == [o.TakePart(GROUPS[0], "ids")], "it is told again until it is acknowledged"
    one.hear(o.Wanted(GROUPS[0], False))
    assert one.take(o.TakePart) == [o.TakePart(GROUPS[0], "none")] and not one.rules.known.topics


def test_more_groups_than_it_takes_on_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partners, "TOPICS_MAX", 2)
    one = Side(1, GROUPS)
    assert one.take(o.AckWanted)[-1] == o.AckWanted(GROUPS[2], True, success=False)
    assert [note.event for note in one.take(c.LogEvent)] == ["pubsub_refused"] and len(one.rules.known.topics) == 2


def test_partner_that_stands_on_no_ring_is_let_go_and_answered_for_a_while() -> None:
    one, two, three = (Side(number, GROUPS[:1]) for number in (1, 2, 3))
    found = met(one, two, three, seconds=20)
    part = next(each for each in one.rules.parts if isinstance(each, partners.Partners))
    gone, known = two.router.public, one.rules.known
    assert not part._may_go(gone), "it stands on the ring"
    overlay = one.rules.others.overlay
    assert overlay is not None
    overlay._rings.remove(gone)
    assert part._may_go(gone) and not part._may_go(three.router.public)
    now = c.Now(NOW.wall_s + one.seconds, NOW.mono_s + one.seconds)
    assert [*part._carry_out([LetGo(gone)], now)] == [o.ShareGroups(gone, (), 0)]
    t = two.rules.known.topics[GROUPS[0]].t[one.router.public]
    asked = encode_message(AskRings((two.advert(),), (Ring(t, ()),)))
    said = [decode_message(sent.body) for sent in one.said(two, asked) if isinstance(sent, c.Send)]
    assert [len(each.rings) for each in said if isinstance(each, TellRings)] == [1]
    assert one.neighbours(GROUPS[0]) == {three.router.public}, "it is answered, and is no neighbour again"
    two.is_up = False
    found.pass_time(partners.LET_GO_S + 1)
    assert not known.let_go and not known.shared_with(gone)
    assert [deed.reason for deed in one.said(two, asked) if isinstance(deed, c.Refuse)] == [MEET_FIRST]


@pytest.mark.parametrize("mode", ["leaf", "overlay"])
def test_one_that_stays_connected_and_answers_late_is_met_again(mode: str) -> None:
    """The neighbour's service was away, or had no room on its disk; the link has been up all the time."""
    one, two = Side(1, GROUPS[:1], mode=mode), Side(2, GROUPS[:1])
    found = Sides(one, two)
    one.links.add(two.router.public)
    one.hear(o.Linked(two.router.public, two.service.public))
    found.sides.pop(two.router.public)
    found.sides[two.router.public] = silent = Side(3)
    silent.router, silent.service = two.router, two.router
    found.pass_time(600)
    assert not one.rules.known.shared_with(two.router.public)
    found.sides[two.router.public] = two
    two.links.add(one.router.public)
    two.seconds = found.seconds
    found.pass_time(partners.AGAIN_S + 60)  # four MEETs take 75 s
    assert [topic.group for topic in one.rules.known.shared_with(two.router.public)] == GROUPS[:1]


def test_a_leaf_meets_its_uplink_again_whose_service_has_started_again() -> None:
    """The link has been up all the time, so nothing else tells either of them."""
    leaf, core = Side(1, GROUPS[:1], mode="leaf"), Side(2, GROUPS[:1])
    found = met(leaf, core)
    core.start()
    assert not core.rules.known.shared_with(leaf.router.public)
    leaf.rules.known.silent(core.router.public)
    found.pass_time(partners.AGAIN_S + 10)
    assert [topic.group for topic in core.rules.known.shared_with(leaf.router.public)] == GROUPS[:1]
    assert not leaf.rules.known.fell_silent


def test_two_that_are_linked_agree_on_what_both_want() -> None:
    one, two = Side(1, GROUPS[:2]), Side(2, GROUPS[1:])
    met(one, two)
    until_s = range(int(NOW.wall_s) + 7200, int(NOW.wall_s) + 7210)
    for side, other in ((one, two), (two, one)):
        told = side.take(o.ShareGroups)
        last = [one for one in told if one.page == 0][-1]
        assert (last.key, last.groups, last.lan) == (other.router.public, (GROUPS[1],), False)
        assert not any(one.groups for one in told if one.page), "the second of two meetings that crossed brings no news"
        assert last.until_s in until_s
        assert side.neighbours(GROUPS[1]) == {other.router.public}
        topic = side.rules.known.topics[GROUPS[1]]
        assert topic.after == topic.before and not topic.others
    for side, other in ((one, two), (two, one)):
        called = other.rules.known.topics[GROUPS[1]].t[side.router.public]
        topic = side.rules.known.topics[GROUPS[1]]
        assert side.rules.known.topic(other.router.public, called) is topic, "also if their two meetings crossed"
    assert not one.neighbours(GROUPS[0])


def test_members_find_each_other_through_one_that_all_know() -> None:
    sides = [Side(number, GROUPS[:1]) for number in range(8)]
    others = {one.router.public for one in sides}
    met(*sides, seconds=40.0)
    for one in sides:
        assert one.neighbours(GROUPS[0]) == others - {one.router.public}
    order = sorted(sides, key=lambda one: int.from_bytes(one.service.public))
    for at, one in enumerate(order):
        following = order[(at + 1) % len(order)]
        assert one.rules.known.topics[GROUPS[0]].after[0].router == following.router.public


def test_what_is_said_on_the_wire_names_no_group() -> None:
    found = met(*[Side(number, GROUPS) for number in range(4)], seconds=40.0)
    bodies = b"".join(one.body for _, one in found.sent)
    assert len(found.sent) > 50 and not [group for group in GROUPS if bytes(group) in bodies]


def test_a_group_that_becomes_wanted_later_is_found_in_seconds() -> None:
    sides = [Side(number, GROUPS[:1]) for number in range(5)]
    found = met(*sides, seconds=60.0)
    for one in sides[:3]:
        one.hear(o.Wanted(GROUPS[2], True))
    found.pass_time(15.0)
    for one in sides[:3]:
        assert one.neighbours(GROUPS[2]) == {other.router.public for other in sides[:3]} - {one.router.public}
    sides[0].hear(o.Wanted(GROUPS[2], False))
    found.pass_time(15.0)
    assert all(sides[0].router.public not in one.neighbours(GROUPS[2]) for one in sides[1:3])


def test_who_vanishes_is_no_neighbour_and_comes_back_after_a_restart() -> None:
    sides = [Side(number, GROUPS[:1]) for number in range(5)]
    found = met(*sides, seconds=40.0)
    gone = sides[2].router.public
    found.die(sides[2])
    assert all(gone not in one.neighbours(GROUPS[0]) for one in sides if one.is_up), "at once, where a link is gone"
    found.pass_time(60.0)
    assert all(gone not in one.neighbours(GROUPS[0]) for one in sides if one.is_up)
    sides[2].is_up = True
    sides[2].start()
    found.pass_time(30.0)
    assert all(gone in one.neighbours(GROUPS[0]) for one in sides if one is not sides[2]), "it kept whom to meet"


def test_two_that_each_found_the_other_down_at_their_start_find_each_other_again() -> None:
    one, two = Side(1, GROUPS[:1]), Side(2, GROUPS[:1])
    sides = met(one, two)
    for side, other in ((one, two), (two, one)):
        other.is_up = False
        side.start()
        sides.pass_time(10.0)
        assert not side.neighbours(GROUPS[0])
        side.is_up, other.is_up = False, True
    one.is_up = two.is_up = True
    sides.pass_time(40.0)
    assert one.neighbours(GROUPS[0]) == {two.router.public} and two.neighbours(GROUPS[0]) == {one.router.public}


def restarted_without_apps(seconds: float) -> tuple[Side, Side, Sides]:
    """Return two nodes that shared a group, of which one was started again, that long after it is back: its app is
    not."""
    one, two = Side(1, GROUPS[:1]), Side(2, GROUPS[:1])
    found = met(one, two, seconds=40.0)
    found.die(two)
    one.take(c.AddNeighbour), two.take(c.AddNeighbour)
    two.is_up, two.wanted = True, ()
    two.start()
    found.pass_time(seconds)
    assert not one.neighbours(GROUPS[0]), "they have met, and nothing is shared"
    return one, two, found


def test_a_router_whose_apps_are_not_back_yet_after_a_restart_stays_known() -> None:
    one, two, found = restarted_without_apps(partners.FORGET_S - 60.0)
    for side in (one, two):
        assert not [learn for learn in side.take(c.AddNeighbour) if not learn.urls], "its router still knows the other"
        assert [key for key in side.kept if key.startswith(partners.KEPT)], "and after another restart it is met"
    two.hear(o.Wanted(GROUPS[0], True))
    found.pass_time(10.0)
    assert one.neighbours(GROUPS[0]) == {two.router.public} and two.neighbours(GROUPS[0]) == {one.router.public}
    found.pass_time(120.0)
    assert not [learn for side in (one, two) for learn in side.take(c.AddNeighbour) if not learn.urls]


def test_a_router_with_which_nothing_is_shared_any_more_is_forgotten_in_the_end() -> None:
    one, two, _ = restarted_without_apps(partners.FORGET_S + 60.0)
    for side, other in ((one, two), (two, one)):
        assert c.AddNeighbour(other.router.public) in side.take(c.AddNeighbour)
        assert not [key for key in side.kept if key.startswith(partners.KEPT)]


def test_a_leaf_meets_routers_whose_service_is_public_and_stands_on_no_ring() -> None:
    core, other, leaf = Side(1, GROUPS[:1]), Side(2, GROUPS[:1]), Side(3, GROUPS[:1], mode="leaf")
    found = Sides(core, other, leaf)
    found.link(core, leaf)
    found.link(core, other)
    found.pass_time(40.0)
    assert core.neighbours(GROUPS[0]) == {other.router.public}
    assert leaf.router.public in core.rules.known.topics[GROUPS[0]].t, "what both have can be compared"
    topic = leaf.rules.known.topics[GROUPS[0]]
    assert [one.router for one in topic.others] == [core.router.public] and not topic.after
    assert core.take(o.ShareGroups) and leaf.take(o.ShareGroups)
    asked = encode_message(AskRings((), (Ring(T, ()),)))
    assert leaf.said(core, asked)[0] == c.Refuse(Reason.UNSUPPORTED, "this node hears no AskRings")


# -- bad input --------------------------------------------------------------------------------------------------------


def test_sub_and_unsub_from_anybody_but_the_router_are_refused() -> None:
    one, two = Side(1), Side(2)
    for wanted in (True, False):
        body = encode_wanted(Wanted(GROUPS[0], wanted))
        assert one.said(two, body) == [
            c.Refuse(Reason.NOT_AUTHORISED, "only the router of this node says which groups are wanted")
        ]
    assert not one.rules.known.topics


def test_a_meeting_that_is_replayed_relayed_or_reflected_finds_nothing() -> None:
    one, two, liar = Side(1, GROUPS), Side(2, GROUPS), Side(3)
    met(one, two)
    heard = met(one, liar, two)
    said = [(sender, each.body) for sender, each in heard.sent if len(each.body) > 100]
    assert said
    for _, body in said:
        for via in (two, liar):
            one.said(via, body)
    assert liar.router.public not in one.rules.known.topics[GROUPS[0]].t
    assert not [each for each in one.take(o.ShareGroups) if each.key == liar.router.public and each.groups]


def test_who_speaks_for_another_is_refused() -> None:
    one, two, liar = Side(1, GROUPS), Side(2, GROUPS), Side(3, GROUPS)
    met(one, two, liar)
    body = encode_message(Meet(bytes(16)))
    for source, via in ((two, liar), (liar, two)):
        [refusal] = [each for each in one.said(via, body, source=source.service.public) if isinstance(each, c.Refuse)]
        assert refusal.reason is Reason.NOT_AUTHORISED
    own = one.hear(c.Message(MessageId(bytes(32)), body, source=two.service.public))
    assert isinstance(own[0], c.Refuse), "an app of this node meets nobody"


def test_rings_of_strangers_and_of_topics_that_are_not_shared_do_not_count() -> None:
    one, two, stranger = Side(1, GROUPS[:1]), Side(2, GROUPS[:1]), Side(3, GROUPS[1:2])
    met(one, two, stranger)
    asked = encode_message(AskRings((), (Ring(T, ()),)))
    assert one.said(stranger, asked)[0] == c.Refuse(MEET_FIRST, "no group is shared; meet first")
    one.take(c.Send)
    one.said(two, asked)
    assert not [each for each in one.take(c.Send) if isinstance(decode_message(each.body), TellRings)]


def test_forged_members_are_not_met_and_those_that_were_brought_are_counted() -> None:
    one, two = Side(1, GROUPS[:1]), Side(2, GROUPS[:1])
    found = met(one, two)
    key, address = SigningKey(b"f" * 32), parse_address("tls://45.0.99.1:4100")
    later = expiry_min(NOW.wall_s + 80_000)
    good = make_advertisement(key, [address], services={"pubsub": key.public}, rev=1, expiry_min=later)
    over = make_advertisement(key, [address], services={"pubsub": key.public}, rev=2, expiry_min=expiry_min(NOW.wall_s))
    forged = type(good)(
        PublicKey(two.service.public), good.addresses, good.services, good.groups, good.rev, good.ttl_s,
        good.expiry_min, good.signature, good.wire.replace(bytes(key.public), bytes(two.service.public), 1),
    )  # fmt: skip
    plain = make_advertisement(key, [address], rev=3, expiry_min=later)
    private = make_advertisement(
        SigningKey(b"p" * 32),
        [parse_address("tls://192.168.0.9:1")],
        services={"pubsub": key.public},
        rev=1,
        expiry_min=later,
    )
    t = one.rules.known.topics[GROUPS[0]].t[two.router.public]
    for advert in (over, forged, plain, private):
        found.pass_time(2.0)
        one.said(two, encode_message(AskRings((advert,), (Ring(t, (Member(0, 0),)),))))
    one.take(c.AddNeighbour)
    found.pass_time(20.0)
    assert not [each for each in one.take(c.AddNeighbour) if each.key in (key.public, forged.router, private.router)]
    found.pass_time(60.0)
    noted = {(each.reason, each.fields["router"]) for each in one.take(c.LogEvent)}
    assert (Reason.BAD_SIGNATURE, two.router.public.hex()) in noted


def test_more_than_a_question_a_second_is_not_answered() -> None:
    one, two = Side(1, GROUPS[:1]), Side(2, GROUPS[:1])
    met(one, two)
    t = one.rules.known.topics[GROUPS[0]].t[two.router.public]
    asked = encode_message(AskRings((), (Ring(t, ()),)))
    refused = [isinstance(one.said(two, asked)[0], c.Refuse) for _ in range(20)]
    assert not refused[0] and sum(refused) >= 16


def test_what_nobody_here_reads_is_refused() -> None:
    one, two = Side(1), Side(2)
    assert one.said(two, b"\x82\x18\x63\xa0")[0] == c.Refuse(Reason.UNSUPPORTED, "pubsub message type 99 is unknown")
    assert isinstance(one.said(two, encode_message(Have(T, (MessageId(bytes(32)),))))[0], c.Refuse)
    assert isinstance(one.said(two, b"\x00")[0], c.Refuse)


def test_two_nodes_with_one_service_key_both_stand_on_the_ring() -> None:
    copied = SigningKey(b"c" * 32)
    sides = [
        Side(1, GROUPS[:1]),
        Side(2, GROUPS[:1], service=copied),
        Side(3, GROUPS[:1], service=copied),
        Side(4, GROUPS[:1]),
    ]
    met(*sides, seconds=40.0)
    for one in sides:
        assert one.neighbours(GROUPS[0]) == {other.router.public for other in sides} - {one.router.public}


@pytest.mark.parametrize("mode", ["leaf", "overlay"])
def test_a_neighbour_that_is_back_is_met_and_compared_with_at_once(mode: str) -> None:
    """The neighbour is met at once however short its link was down, and though the last meeting was a moment ago."""
    one, two = Side(1, GROUPS[:1], mode=mode), Side(2, GROUPS[:1])
    found = met(one, two)
    for _ in range(2):
        one.hear(o.HeldPage(GROUPS[0]))
        found.pass_time(2.1)
        one.done.clear()
        one.hear(o.Linked(two.router.public))
        found.pass_time(2.1)
        one.hear(o.Linked(two.router.public, two.service.public))
        assert any(isinstance(decode_message(sent.body), Meet) for sent in one.done if isinstance(sent, c.Send))
        found.pass_time(5.1)
        assert one.take(o.ListHeld), "it looks up what it holds, to compare"
        one.hear(o.HeldPage(GROUPS[0]))
        compared = [decode_message(sent.body) for sent in one.done if isinstance(sent, c.Send)]
        assert any(isinstance(said, Compare) for said in compared)


@pytest.mark.parametrize("mode", ["leaf", "overlay"])
def test_whole_messages_are_wanted_only_while_there_is_somebody_to_send_them_to(mode: str) -> None:
    one, two = Side(1, GROUPS[:1], mode=mode), Side(2, GROUPS[:1])
    assert one.take(o.TakePart) == [o.TakePart(GROUPS[0], "ids")]
    found = met(one, two)
    assert one.take(o.TakePart) == [o.TakePart(GROUPS[0], "whole" if mode == "overlay" else "ids")]
    found.die(two)
    found.pass_time(30.0)
    assert one.take(o.TakePart) == [o.TakePart(GROUPS[0], "ids")]
