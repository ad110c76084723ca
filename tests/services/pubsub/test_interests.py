"""Nodes that may want the same groups: filters of others, exchanged, checked and used to choose whom to meet."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace
from rigs.pubsub_sides import NOW, Side, Sides
from samples.pubsub import FILTERS

from router.core.wire.crypto import MessageId, PublicKey, Signature, SigningKey, digest
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.known import Neighbour
from services.pubsub.core.meetings import interests
from services.pubsub.core.meetings.filters import bits_of, tell
from services.pubsub.core.meetings.interest_table import InterestLimits, InterestTable
from services.pubsub.core.meetings.interests import SECRET, ExchangeLimits
from services.pubsub.core.meetings.open_questions import AnswerTime, OpenQuestions
from services.pubsub.core.messages import (
    AskInterests,
    Filter,
    Interested,
    TellInterests,
    decode_message,
    encode_message,
    make_filter,
)

GROUPS = [SigningKey(bytes((13, number)) * 16).public for number in range(4)]
SIGNATURE = Signature(bytes(64))
OWN = PublicKey(bytes(32))


def node(number: int, prefix: bytes | None = None) -> Neighbour:
    return Neighbour(PublicKey(digest(b"router %d" % number)), PublicKey(digest(b"service %d" % number)), prefix)


def unsigned(groups: list[PublicKey], number: int, rev: int = 1) -> Filter:
    return Filter(rev, tell(groups, digest(b"%d" % number)), SIGNATURE)


def test_those_that_want_a_group_are_suggested_before_others() -> None:
    """Each filter is weak evidence; of 100 nodes, the ten that want a group are suggested early far more often than by
    chance."""
    places = list[int]()
    for seed in range(20):
        table = InterestTable(OWN, Random(seed), InterestLimits(suggested_max=100))
        for number in range(100):
            wants = [GROUPS[0]] if number < 10 else [GROUPS[1]]
            table.take(node(number), 0, unsigned(wants, 1_000 * seed + number))
        order = table.suggested([(GROUPS[0], 0)], ())
        assert len(order) == 100
        places += [order.index(node(number)) for number in range(10)]
    assert sum(places) / len(places) < 30, "by chance it would be 49.5"


def exactly(group: PublicKey) -> Filter:
    """Return a filter with the bits of one group."""
    ones = sum(1 << bit for bit in set(bits_of(group)))
    return Filter(1, ones.to_bytes(128, "little"), SIGNATURE)


def test_groups_with_few_neighbours_count_more() -> None:
    table = InterestTable(OWN, Random(1))
    for number, group in enumerate(GROUPS[:2]):
        table.take(node(number), 0, exactly(group))
    for first, second in ((0, 1), (1, 0)):
        wanted = [(GROUPS[first], 0), (GROUPS[second], 30)]
        assert table.suggested(wanted, ()) == (node(first), node(second))
        assert table.suggested(wanted, {node(first).router}) == (node(second),)
    assert table.suggested([], ()) == ()


def test_ages_are_never_reset_and_the_newest_filter_counts() -> None:
    table = InterestTable(OWN, Random(1), InterestLimits(age_max=5))
    old, new = unsigned(GROUPS[:1], 1, rev=5), unsigned(GROUPS[1:2], 1, rev=6)
    table.take(node(1), 3, new)
    table.take(node(1), 0, old)
    assert table.rev(node(1).router) == 6 and table.told(OWN)[0].age == 3
    table.take(node(1), 1, new)
    assert table.told(OWN)[0].age == 1 and not table.told(node(1).router)
    table.take(node(2), 6, new)
    table.take(Neighbour(OWN, OWN), 0, new)
    assert len(table) == 1, "neither what is too old nor this node itself"
    for _ in range(5):
        table.period()
    assert len(table) == 0


def test_each_is_asked_in_turn() -> None:
    table = InterestTable(OWN, Random(1))
    for number in range(5):
        table.offer(node(number))
    asked = [table.period() for _ in range(5)]
    assert {one.router for one in asked if one} == {node(number).router for number in range(5)}


def test_the_table_has_limits_and_no_public_network_fills_it() -> None:
    table = InterestTable(OWN, Random(1), InterestLimits(known_max=10, of_prefix_max=3))
    for number in range(30):
        table.take(node(number, b"crowd"), 0, unsigned([], number))
    assert len(table) == 3
    for number in range(30, 60):
        table.take(node(number, bytes([number])), 0, unsigned([], number))
    assert len(table) == 10


def test_a_filter_of_all_ones_is_none_that_randomising_makes() -> None:
    table = InterestTable(OWN, Random(1))
    assert not table.take(node(1), 0, Filter(1, b"\xff" * 128, SIGNATURE)) and len(table) == 0


# -- between services -------------------------------------------------------------------------------------------------


def announce(to: Side, of: Side) -> None:
    """Let discovery of one node announce another."""
    found = to.advert().services["discovery"]
    to.hear(c.Message(MessageId(bytes(32)), of.advert().message, group=found))


def test_services_that_are_announced_exchange_filters_and_find_their_group() -> None:
    """Eight nodes know one another from discovery alone; the three that want a group find each other by filters."""
    own = [SigningKey(bytes((15, number)) * 16).public for number in range(8)]
    sides = [Side(number, GROUPS[:1] if number < 3 else own[number : number + 1]) for number in range(8)]
    found = Sides(*sides)
    chance = Random(1)
    for one in sides:
        for other in chance.sample(sides, 4):
            announce(one, other)
    found.pass_time(120.0)
    wanted = {one.router.public for one in sides[:3]}
    for one in sides[:3]:
        assert one.neighbours(GROUPS[0]) == wanted - {one.router.public}
    bodies = b"".join(one.body for _, one in found.sent)
    assert not [group for group in GROUPS if bytes(group) in bodies], "and no message names a group"


def test_its_filter_is_the_same_after_a_restart() -> None:
    one = Side(1, GROUPS)
    found = Sides(one)
    found.pass_time(5.0)
    before, secret = one.mine(), one.kept[SECRET]
    one.start()
    found.pass_time(5.0)
    after = one.mine()
    assert before is not None and after is not None and one.kept[SECRET] == secret
    assert after.bits == before.bits and after.rev > before.rev


def asked(by: Side, found: Filter | None = None, view: tuple[Interested, ...] = ()) -> bytes:
    mine = found or make_filter(by.service, int(NOW.wall_s * 1000), tell(by.wanted, bytes(32)))
    return encode_message(AskInterests(mine, (Interested(0, by.advert(), mine), *view)))


def test_a_question_is_answered_with_the_own_filter_and_others() -> None:
    one, two = Side(1, GROUPS), Side(2, GROUPS[:1])
    Sides(one).pass_time(5.0)
    one.said(two, asked(two))
    [sent] = one.take(c.Send)
    told = decode_message(sent.body)
    assert isinstance(told, TellInterests) and told.mine.is_signed_by(one.service.public)
    assert [each.advert.router for each in told.view] == [one.router.public]
    assert (sent.to, sent.via) == (two.service.public, two.router.public)


def test_a_question_before_the_own_filter_is_made_is_answered_once_it_is() -> None:
    one, two = Side(1, GROUPS), Side(2, GROUPS[:1])
    one.said(two, asked(two))
    one.said(two, asked(two))
    assert one.mine() is None and not one.take(c.Send)
    for _ in range(5):
        one.seconds += 1
        one.hear(c.Tick())
    told = [each for each in one.take(c.Send) if isinstance(decode_message(each.body), TellInterests)]
    assert [(each.to, each.via) for each in told] == [(two.service.public, two.router.public)]


def test_of_questions_before_the_own_filter_is_made_a_bounded_number_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interests, "ExchangeLimits", lambda: ExchangeLimits(routers_max=2))
    one, others = Side(1, GROUPS), [Side(number, GROUPS[:1]) for number in range(2, 6)]
    for other in others:
        assert not [deed for deed in one.said(other, asked(other)) if isinstance(deed, c.Refuse)]
    for _ in range(5):
        one.seconds += 1
        one.hear(c.Tick())
    told = [each for each in one.take(c.Send) if isinstance(decode_message(each.body), TellInterests)]
    assert [each.via for each in told] == [other.router.public for other in others[:2]], "those that came first"
    one.said(others[3], asked(others[3]))
    assert [each.via for each in one.take(c.Send)] == [others[3].router.public], "which asks again, in its next period"


@pytest.mark.parametrize("case", ("forged", "yesterday", "tomorrow", "all ones"))
def test_filters_that_do_not_count(case: str) -> None:
    one, two = Side(1, GROUPS), Side(2, GROUPS[:1])
    Sides(one).pass_time(5.0)
    now_ms, bits = int(NOW.wall_s * 1000), tell(GROUPS[:1], bytes(32))
    day_ms = 26 * 3_600_000
    found, reason = {
        "forged": (replace(make_filter(two.service, now_ms, bits), rev=now_ms + 1), Reason.BAD_SIGNATURE),
        "yesterday": (make_filter(two.service, now_ms - day_ms, bits), Reason.EXPIRY_PASSED),
        "tomorrow": (make_filter(two.service, now_ms + day_ms, bits), Reason.EXPIRY_TOO_FAR),
        "all ones": (make_filter(two.service, now_ms, b"\xff" * 128), Reason.MALFORMED),
    }[case]
    one.said(two, asked(two, found))
    one.seconds += 61
    one.hear(c.Tick())
    noted = [(each.reason, each.fields["router"]) for each in one.take(c.LogEvent)]
    assert noted == [(reason, two.router.public.hex())]


def test_what_was_not_asked_for_and_what_is_asked_too_often_does_not_count() -> None:
    one, two = Side(1, GROUPS), Side(2, GROUPS[:1])
    Sides(one).pass_time(5.0)
    told = encode_message(TellInterests(make_filter(two.service, int(NOW.wall_s * 1000), bytes(128)), ()))
    assert isinstance(one.said(two, told)[0], c.Refuse)
    refused = [isinstance(one.said(two, asked(two))[0], c.Refuse) for _ in range(10)]
    assert refused == [False] * 3 + [True] * 7


def test_who_answers_for_another_does_not_keep_the_true_answer_out() -> None:
    one, two, liar = Side(1, GROUPS), Side(2, GROUPS[:1]), Side(3, GROUPS)
    Sides(one).pass_time(5.0)
    announce(one, two)
    while not any(isinstance(decode_message(each.body), AskInterests) for each in one.take(c.Send)):
        one.seconds += 1
        one.hear(c.Tick())
    told = encode_message(TellInterests(make_filter(two.service, int(NOW.wall_s * 1000), bytes(128)), ()))
    assert isinstance(one.said(two, told, source=liar.service.public)[0], c.Refuse)
    assert not one.said(two, told)
    assert isinstance(one.said(two, told)[0], c.Refuse), "one answer is taken"


def test_an_answer_that_comes_late_is_left_out_and_is_not_counted_as_refused() -> None:
    one, two = Side(1, GROUPS), Side(2, GROUPS[:1])
    Sides(one).pass_time(5.0)
    announce(one, two)
    while not any(isinstance(decode_message(each.body), AskInterests) for each in one.take(c.Send)):
        one.seconds += 1
        one.hear(c.Tick())
    one.seconds += 6
    told = encode_message(TellInterests(make_filter(two.service, int(NOW.wall_s * 1000), bytes(128)), ()))
    assert one.said(two, told) == []
    assert isinstance(one.said(two, told)[0], c.Refuse), "one answer to one question"
    one.seconds += 61
    one.hear(c.Tick())
    assert [each.fields["times"] for each in one.take(c.LogEvent)] == [1]


def test_each_answer_ends_one_question_and_questions_are_remembered_for_a_time() -> None:
    questions, (one, two, three) = OpenQuestions(5.0, 300.0, routers_max=2), GROUPS[:3]
    for now_s in (0.0, 2.0, 4.0):
        questions.add(one, now_s)
    assert [questions.end(one, now_s) for now_s in (6.0, 6.5, 8.0, 8.5)] == [
        AnswerTime.IN_TIME, AnswerTime.IN_TIME, AnswerTime.LATE, AnswerTime.NOT_ASKED,
    ]  # fmt: skip
    for router in (one, two):
        questions.add(router, 10.0)
    assert [questions.end(one, 314.0), questions.end(two, 315.0)] == [AnswerTime.LATE, AnswerTime.NOT_ASKED]
    for router in (one, two, three):
        questions.add(router, 400.0)
    assert [questions.end(router, 401.0) for router in (one, two)] == [AnswerTime.NOT_ASKED, AnswerTime.IN_TIME]


def test_who_speaks_for_another_is_refused() -> None:
    one, two, liar = Side(1, GROUPS), Side(2, GROUPS), Side(3, GROUPS)
    Sides(one).pass_time(5.0)
    body = encode_message(AskInterests(FILTERS[0], ()))
    assert one.said(liar, body)[0] == c.Refuse(
        Reason.NOT_AUTHORISED, "only the pub/sub service that a router names speaks for it"
    ), "nobody has said which service that router has"
    one.hear(o.Linked(liar.router.public, liar.service.public))
    assert isinstance(one.said(liar, body, source=two.service.public)[0], c.Refuse)


def test_of_many_groups_those_with_the_fewest_neighbours_decide_who_is_met() -> None:
    """A choice for 4,096 groups takes no longer than for 64; among groups with equally few neighbours, others are
    chosen each time."""
    lonely, others = GROUPS[0], [PublicKey(digest(b"group %d" % number)) for number in range(200)]
    table = InterestTable(OWN, Random(1), InterestLimits(groups_max=8, suggested_max=1))
    table.take(node(0), 0, exactly(lonely))
    table.take(node(1), 0, exactly(others[0]))
    neighbours = [(group, 1) for group in others]
    assert table.suggested([*neighbours, (lonely, 0)], ()) == (node(0),)
    first = {table.suggested([(group, 0) for group in (*others[:20], lonely)], ()) for _ in range(50)}
    assert first == {(node(0),), (node(1),)}


def test_filters_are_asked_for_often_at_first_and_seldom_while_all_known_nodes_share_a_group() -> None:
    one, two, other = Side(1, GROUPS[:1]), Side(2, GROUPS[:1]), Side(3, GROUPS[2:3])
    sides = Sides(one, two, other)
    for here, there in ((one, two), (two, one)):
        body = there.advert().message
        here.hear(c.Message(MessageId(bytes(32)), body, group=here.advert().services["discovery"]))

    def asked(seconds: float) -> int:
        sides.sent.clear()
        sides.pass_time(seconds)
        return sum(isinstance(decode_message(sent.body), AskInterests) for by, sent in sides.sent if by is one)

    at_first, calm = asked(40), asked(1_500)
    assert 12 <= at_first <= 20 and 3 <= calm <= 8
    announce(one, other)
    assert 8 <= asked(100) <= 13, "one that shares nothing is known"
    one.wanted = (*one.wanted, GROUPS[1])
    one.hear(o.Wanted(GROUPS[1], True))
    assert 12 <= asked(40) <= 20
    one.hear(o.Wanted(GROUPS[1], True))  # told again: nothing is new
    assert 2 <= asked(40) <= 6
    assert not [note for side in (one, two) for note in side.take(c.LogEvent) if note.event == "pubsub_refused"]
