"""The part that passes the pub/sub service's events to forwarding and repair, by its events and deeds."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec.structs import replace
from rigs.topic_network import key_of, message_of, neighbour, topic

from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.deed_checks import DeedChecks
from router.service.roles import overlay as o
from services.pubsub.core.known import Known, Topic
from services.pubsub.core.messages import Have, decode_message
from services.pubsub.core.others import Others
from services.pubsub.core.sending.dissemination import Dissemination
from services.pubsub.core.sending.forwarding import ForwardingLimits
from services.pubsub.core.sending.untaken import UntakenLimits
from services.pubsub.events import EVENTS
from services.pubsub.reasons import GONE, LIMIT, MEET_FIRST, NOT_TAKEN, UNANSWERED

WALL_S, MEMBER, STRANGER = 1_800_000_000.0, key_of(11), key_of(99)
GROUP_KEY = SigningKey(bytes(range(32)))
T = b"t" * 16


def at(mono_s: float) -> c.Now:
    return c.Now(WALL_S + mono_s, mono_s)


def topic_of_members() -> Topic:
    found = topic((11, 12), (21,), (31, 32))
    found.group = GROUP_KEY.public
    found.t = {key_of(one): T for one in (11, 12, 21, 31, 32)}
    return found


def made(
    kept: dict[bytes, bytes] | None = None, *, is_leaf: bool = False, **limits: Any
) -> tuple[Dissemination, Known]:
    known = Known(key_of(1))
    known.topics[GROUP_KEY.public] = topic_of_members()
    setup = c.Setup("pubsub", key_of(1), None, {} if kept is None else kept, Random(1))
    others = Others()
    others.linked |= {one.router: one.service for one in known.topics[GROUP_KEY.public].neighbours.values()}
    return Dissemination(setup, known, others, ForwardingLimits(**limits), is_leaf=is_leaf), known


def published(
    body: bytes = b"hello", via: PublicKey | None = None, seen: tuple[MessageId, ...] = (), ttl_s: int = 60
) -> c.Message:
    wire = seal_multicast(GROUP_KEY, body, ttl_s=ttl_s, expiry_min=expiry_min(int(WALL_S) + 3_600), seen=seen)
    return c.Message(message_id(wire), body, None, GROUP_KEY.public, via, seen, wire)


def of(kind: type, deeds: list[c.Deed]) -> list[Any]:
    return [one for one in deeds if isinstance(one, kind)]


def test_a_message_of_a_member_goes_on_as_it_was_received() -> None:
    part, _ = made()
    message = published(via=MEMBER)
    deeds = part.hear(message, at(0))
    assert [one.wire for one in of(c.Forward, deeds)] == [message.wire] * 3
    assert of(c.Forward, deeds)[0].via == key_of(21) and MEMBER not in [one.via for one in of(c.Forward, deeds)]
    assert of(c.Wake, deeds) == [c.Wake(WALL_S + 3.0)] and not of(c.Put, deeds)


def test_what_is_published_here_is_kept_until_a_neighbour_has_it() -> None:
    part, _ = made()
    message = published()
    kept = of(c.Put, part.hear(message, at(0)))
    assert kept[0].key == b"own/" + message.id and kept[0].value[:32] == GROUP_KEY.public
    tag = "copy " + key_of(11).hex()
    assert part.hear(c.HopOutcome(tag, message.id, key_of(11), "acked"), at(1)) == [c.Put(kept[0].key, None)]


def test_what_a_client_published_counts_as_published_here() -> None:
    part, _ = made()
    assert of(c.Put, part.hear(published(via=STRANGER), at(0)))


def test_what_a_leaf_published_counts_as_published_here_though_it_shares_the_topic() -> None:
    part, known = made()
    known.topics[GROUP_KEY.public].t[STRANGER] = T
    assert of(c.Put, part.hear(published(via=STRANGER), at(0)))


def test_a_message_that_is_not_to_wait_is_not_kept() -> None:
    part, _ = made()
    deeds = part.hear(published(ttl_s=0), at(0))
    assert not of(c.Put, deeds) and len(of(c.Forward, deeds)) == 3


def test_what_is_of_no_topic_is_left_alone() -> None:
    part, known = made()
    known.topics.clear()
    assert part.hear(published(), at(0)) == []


def test_a_leaf_forwards_nothing_and_asks_its_uplink_for_what_it_missed() -> None:
    part, _ = made(is_leaf=True)
    deeds = part.hear(published(via=STRANGER, seen=(message_of(7),)), at(0))
    assert deeds == [c.Wake(WALL_S + 2.0)]
    assert of(o.PullFrom, part.hear(c.Tick(), at(2))) == [o.PullFrom(STRANGER, GROUP_KEY.public, message_of(7))]


def test_a_copy_not_taken_in_time_goes_to_another_and_the_router_is_silent() -> None:
    part, known = made()
    message = published(via=key_of(31))
    first = part.hear(message, at(0))
    for one in of(c.Forward, first)[1:]:
        part.hear(c.HopOutcome(one.tag, message.id, one.via, "acked"), at(1))
    deeds = part.hear(c.Tick(), at(3))
    assert [one.via for one in of(c.Forward, deeds)] == [key_of(12)]
    assert known.fell_silent == {MEMBER}


def test_a_copy_that_ended_otherwise_goes_to_another_at_once() -> None:
    part, _ = made()
    message = published(via=key_of(31))
    first = of(c.Forward, part.hear(message, at(0)))[0]
    ended = c.HopOutcome(first.tag, message.id, first.via, "refused", Reason.NOT_AUTHORISED)
    assert [one.via for one in of(c.Forward, part.hear(ended, at(0.1)))] == [key_of(12)]


def test_a_copy_that_this_router_does_not_take_goes_to_another_unless_it_takes_none() -> None:
    part, _ = made()
    message = published(via=key_of(31))
    first = of(c.Forward, part.hear(message, at(0)))[0]
    assert part.hear(c.Sent(first.tag, message.id), at(0.1)) == []
    assert part.hear(c.Sent(first.tag, message.id, Reason.DISK_FULL), at(0.1)) == []
    deeds = part.hear(c.Sent(first.tag, message.id, Reason.NO_ROUTE), at(0.1))
    assert [one.via for one in of(c.Forward, deeds)] == [key_of(12)]


def test_after_a_restart_what_no_neighbour_has_is_fetched_and_sent_again() -> None:
    before, _ = made()
    message = published()
    kept = {one.key: one.value for one in of(c.Put, before.hear(message, at(0)))}
    part, _ = made(kept)
    assert part.hear(c.Started(key_of(2)), at(10)) == [c.Wake(WALL_S + 11.0)]
    assert of(c.Pull, part.hear(c.Tick(), at(11))) == [c.Pull(GROUP_KEY.public, message.id)]
    deeds = part.hear(c.Pulled(GROUP_KEY.public, message.id, message.wire), at(11))
    assert len(of(c.Forward, deeds)) == 3 and of(c.Forward, deeds)[0].wire == message.wire
    gone, _ = made(kept)
    gone.hear(c.Started(key_of(2)), at(10))
    gone.hear(c.Tick(), at(11))
    deeds = gone.hear(c.Pulled(GROUP_KEY.public, message.id, None), at(11))
    assert of(c.Put, deeds) == [c.Put(b"own/" + message.id, None)]
    assert [(one.event, one.reason) for one in of(c.LogEvent, deeds)] == [("pubsub_given_up", GONE)]


def test_a_large_message_is_announced_and_asked_for_where_it_is_missing() -> None:
    part, _ = made(large_bytes=100)
    message = published(bytes(100), via=MEMBER)
    deeds = part.hear(message, at(0))
    assert [one.via for one in of(c.Forward, deeds)] == [key_of(21)]
    sent = of(c.Send, deeds)
    assert len(sent) == 2 and {one.to for one in sent} <= {neighbour(one).service for one in (12, 31, 32)}
    assert all(decode_message(one.body) == Have(T, (message.id,)) for one in sent)

    other, known = made()
    known.share(MEMBER, {GROUP_KEY.public: T})
    have = c.Message(message_of(50), b"", neighbour(11).service, None, MEMBER)
    assert other.read(have, Have(T, (message.id,)), at(0)) == [c.Wake(WALL_S + 1.0)]
    assert of(o.PullFrom, other.hear(c.Tick(), at(1))) == [o.PullFrom(MEMBER, GROUP_KEY.public, message.id)]
    deeds = other.hear(published(bytes(100), via=MEMBER), at(1.1))
    assert [one.event for one in of(c.LogEvent, deeds)] == ["pubsub_repaired"]
    assert len(of(c.Forward, deeds)) == 3
    topic = known.topics[GROUP_KEY.public]
    assert (
        (topic.received, topic.copies, topic.repaired)
        == (1, 3, 1)
        == tuple(other.figures()[name] for name in ("received", "copies", "repaired"))
    )


def test_ids_of_a_topic_that_is_not_shared_are_refused() -> None:
    part, _ = made()
    have = c.Message(message_of(50), b"", neighbour(11).service, None, MEMBER)
    assert part.read(have, Have(b"x" * 16, (message_of(1),)), at(0)) == [c.Refuse(MEET_FIRST)]


def test_what_the_router_says_of_a_pull_is_heeded() -> None:
    part, _ = made()
    part.hear(published(via=MEMBER, seen=(message_of(7), message_of(8), message_of(9))), at(0))
    asked = of(o.PullFrom, part.hear(c.Tick(), at(2)))
    assert [one.id for one in asked] == [message_of(7), message_of(8), message_of(9)]
    group = GROUP_KEY.public
    assert part.hear(o.PulledFrom(MEMBER, group, message_of(7), "known"), at(2)) == []
    [elsewhere] = of(o.PullFrom, part.hear(o.PulledFrom(MEMBER, group, message_of(8), "away"), at(2)))
    assert elsewhere.id == message_of(8) and elsewhere.router != MEMBER
    assert of(o.PullFrom, part.hear(o.PulledFrom(MEMBER, group, message_of(9), "later"), at(2))) == []
    assert o.PullFrom(MEMBER, group, message_of(9)) in part.hear(c.Tick(), at(3.5))


def test_what_nobody_has_is_noted_and_what_was_not_asked_for_is_counted() -> None:
    part, _ = made()
    ids = tuple(message_of(one) for one in range(70))
    for first in range(0, 70, 14):
        part.hear(published(b"%d" % first, via=MEMBER, seen=ids[first : first + 14]), at(0))
    notes = [note for second in range(2, 400) for note in of(c.LogEvent, part.hear(c.Tick(), at(second)))]
    unanswered = [one for one in notes if one.event == "pubsub_unanswered"]
    assert sum(int(one.fields.get("times", 1)) for one in unanswered) == 64 and len(unanswered) <= 62
    assert all(one.reason is UNANSWERED for one in unanswered)
    [left_out] = [one for one in notes if one.event == "pubsub_not_asked"]
    assert left_out.reason is LIMIT and left_out.fields == {"times": 6, "source": GROUP_KEY.public.hex()}
    assert {one.event for one in notes} <= EVENTS.keys()


def test_that_nobody_took_a_message_of_others_is_counted_by_the_minute() -> None:
    part, known = made()
    known.topics[GROUP_KEY.public] = view = topic((11,), (21,), ())
    view.t = {key_of(31): T}
    for number in range(5):
        part.hear(published(b"%d" % number, via=key_of(31)), at(0))
    notes = [note for second in range(2, 100) for note in of(c.LogEvent, part.hear(c.Tick(), at(second)))]
    assert notes == [c.LogEvent("pubsub_not_taken", None, NOT_TAKEN, {"times": 5})]


def test_a_topic_that_is_not_wanted_any_more_is_forgotten() -> None:
    part, _ = made()
    message = published(seen=())
    part.hear(message, at(0))
    assert c.Put(b"own/" + message.id, None) in part.hear(o.Wanted(GROUP_KEY.public, False), at(1))
    assert part.figures()["under_way"] == part.figures()["not_taken"] == 0


def test_an_operator_is_told_the_figures() -> None:
    part, _ = made()
    part.hear(published(via=MEMBER), at(0))
    [answer] = part.hear(c.Asked(3, "forwarding"), at(1))
    assert isinstance(answer, c.Answer) and answer.number == 3
    assert answer.value["received"] == 1 and answer.value["copies"] == 3 and answer.value["under_way"] == 1


def told(*numbers: int) -> o.Published:
    minute = expiry_min(int(WALL_S) + 3_600)
    return o.Published(GROUP_KEY.public, b"".join(map(message_of, numbers)), ((minute, len(numbers)),))


def test_what_was_published_while_nobody_was_there_is_kept_in_a_row_and_fetched_for_the_first_who_comes() -> None:
    kept: dict[bytes, bytes] = {}
    part, known = made(kept)
    members, known.topics[GROUP_KEY.public] = known.topics[GROUP_KEY.public], Topic(GROUP_KEY.public)
    [row] = of(c.Put, part.hear(told(1, 2, 3, 4), at(0)))
    assert row.key == b"own-run/" + message_of(1) and len(row.value) == 40 + 4 * 32
    assert not of(c.Pull, part.hear(c.Tick(), at(1)))
    kept[row.key] = row.value
    again, known = made(kept)
    known.topics[GROUP_KEY.public] = members
    again.hear(c.Started(key_of(2)), at(0))
    again.hurry(GROUP_KEY.public, at(0))
    deeds = again.hear(c.Tick(), at(0))
    assert [one.id for one in of(c.Pull, deeds)] == [message_of(one) for one in (1, 2, 3, 4)]
    gone = [again.hear(c.Pulled(GROUP_KEY.public, message_of(one), None), at(0)) for one in (1, 2, 3, 4)]
    rows = [[(one.key, one.value and len(one.value)) for one in of(c.Put, deeds)] for deeds in gone]
    assert rows == [[], [(row.key, 40 + 2 * 32)], [(row.key, 40 + 32)], [(row.key, None)]]


def test_what_was_published_in_this_life_is_fetched_by_deeds_that_can_be_carried_out() -> None:
    part, known = made()
    members, known.topics[GROUP_KEY.public] = known.topics[GROUP_KEY.public], Topic(GROUP_KEY.public)
    part.hear(told(1, 2), at(0))
    known.topics[GROUP_KEY.public] = members
    part.hurry(GROUP_KEY.public, at(1))
    asked = of(c.Pull, part.hear(c.Tick(), at(1)))
    assert [DeedChecks().judge(one, hears_message=False) for one in asked] == asked
    assert [one.id for one in asked] == [message_of(1), message_of(2)]


def test_no_more_is_kept_than_there_is_room_for() -> None:
    part, _ = made(untaken=UntakenLimits(own_max=2))
    assert len(of(c.Put, part.hear(told(1, 2, 3), at(0)))[0].value) == 40 + 2 * 32
    assert not of(c.Put, part.hear(replace(told(4), left_out=5), at(0)))
    notes = of(c.LogEvent, part.hear(c.Tick(), at(61)))
    assert [(one.event, one.reason, one.fields) for one in notes] == [("pubsub_given_up", LIMIT, {"times": 7})]
    assert part.received == 9


def test_a_leaf_only_counts_what_is_published_here() -> None:
    part, _ = made(is_leaf=True)
    assert not of(c.Put, part.hear(told(1, 2), at(0))) and part.received == 2


def test_copies_are_remembered_with_what_becomes_of_them_and_forgotten_if_their_router_brings_something() -> None:
    part, known = made()
    message = published()
    to = [one.via for one in of(c.Forward, part.hear(message, at(0)))]

    def watched() -> list[bool]:
        return [bool(known.withholding.watched(one, GROUP_KEY.public, 2)) for one in to]

    assert watched() == [False] * 3, "not acknowledged yet"
    for one in to[:2]:
        part.hear(c.HopOutcome("copy " + one.hex(), message.id, one, "acked"), at(1))
    assert watched() == [True, True, False]
    part.hear(published(b"another", via=to[0]), at(2))
    assert watched() == [False, True, False]


def test_a_copy_that_nobody_keeps_is_not_remembered() -> None:
    part, known = made()
    message = published(ttl_s=0)
    for one in of(c.Forward, part.hear(message, at(0))):
        part.hear(c.HopOutcome("copy " + one.via.hex(), message.id, one.via, "acked"), at(1))
        assert not known.withholding.watched(one.via, GROUP_KEY.public, 2)


def test_a_message_that_was_asked_for_clears_nobody_and_casts_doubt_on_the_nearest() -> None:
    part, known = made()
    message = published()
    for one in of(c.Forward, part.hear(message, at(0))):
        part.hear(c.HopOutcome("copy " + one.via.hex(), message.id, one.via, "acked"), at(1))
    known.nearest_since = lambda _: {key_of(11): 0.0}
    missed = published(b"missed")
    part.hear(published(b"later", via=key_of(31), seen=(missed.id,)), at(2))
    [asked] = of(o.PullFrom, part.hear(c.Tick(), at(4)))
    part.hear(replace(missed, via=asked.router), at(5))
    assert known.withholding.checks(1.0e9, known.topics) == [(key_of(11), GROUP_KEY.public)]
