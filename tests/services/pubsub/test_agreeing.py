"""Two services that want very many groups agree by ranges, after a meeting; liars and old services lose nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TypeGuard

import pytest
from rigs.pubsub_sides import Side, Sides

from router.core.service.meetings import GoOn
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import BY_RANGES, NONCE_BYTES, TAGS_MAX, Meet, Meeting, Met
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from router.service.verbs import share_groups
from router.service.verbs.share_groups import GROUPS_MAX, ShareGroups
from services.pubsub.core.meetings.agreeing import Agreed, Agreeing, AgreeingLimits, Deed, SayGroups, Unused
from services.pubsub.core.messages import AskGroups, TellGroups, decode_message, encode_message
from services.pubsub.reasons import NOT_AGREED

ONE, TWO, THREE = (PublicKey(bytes((number,)) * 32) for number in (1, 2, 3))
LIMITS = AgreeingLimits()
FIRST, SECOND = b"1" * NONCE_BYTES, b"2" * NONCE_BYTES


def keys(first: int, count: int) -> list[PublicKey]:
    chance = random.Random(5)
    return [PublicKey(chance.randbytes(32)) for _ in range(first + count)][first:]


@dataclass
class End:
    """One end of agreements, and what it found."""

    router: PublicKey
    wanted: list[PublicKey]
    limits: AgreeingLimits = LIMITS
    found: list[Agreed] = field(default_factory=list)
    unused: list[Reason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agreeing = Agreeing(lambda: self.wanted, random.Random(self.router[0]).randbytes, self.limits)

    def begin(self, other: PublicKey, *, asks: bool, first: bytes = FIRST, now_s: float = 0.0) -> list[SayGroups]:
        meeting = Meeting(self.router, other, first, SECOND)
        return self.take(self.agreeing.begin(GoOn(other, other, meeting, asks), now_s))

    def take(self, deeds: list[Deed]) -> list[SayGroups]:
        self.found += [one for one in deeds if isinstance(one, Agreed)]
        self.unused += [one.reason for one in deeds if isinstance(one, Unused)]
        return [one for one in deeds if isinstance(one, SayGroups)]

    def hear(self, by: PublicKey, said: SayGroups, now_s: float = 0.0) -> list[SayGroups]:
        word = decode_message(encode_message(said.word))
        if isinstance(word, AskGroups):
            return self.take(self.agreeing.hear_question(by, word, now_s))
        assert isinstance(word, TellGroups)
        return self.take(self.agreeing.hear_answer(by, word, now_s))


def talk(one: End, two: End) -> int:
    """Carry an agreement that `one` begins to its end; return the number of frames."""
    two.begin(one.router, asks=False)
    said, frames, ends = one.begin(two.router, asks=True), 0, (two, one)
    while said:
        frames += 1
        [word] = said
        hearer, sayer = ends
        said, ends = hearer.hear(sayer.router, word), (sayer, hearer)
    return frames


def test_both_ends_find_all_groups_in_common_and_forget_the_agreement() -> None:
    both = keys(0, 600)
    one, two = End(ONE, [*both, *keys(600, 700)]), End(TWO, [*both, *keys(1_300, 500)])
    assert talk(one, two) <= 8
    for end in (one, two):
        [found] = end.found
        assert found.groups == set(both) and found.is_whole and not end.unused
        assert end.agreeing.due_s == float("inf")


def test_a_word_of_another_meeting_or_of_an_earlier_frame_is_not_used() -> None:
    one, two = End(ONE, keys(0, 40)), End(TWO, keys(0, 40))
    two.begin(ONE, asks=False)
    [yesterday] = one.begin(TWO, asks=True, first=SECOND)
    assert two.hear(ONE, yesterday) == [] and two.unused == [Reason.NOT_AUTHORISED]
    [word] = one.begin(TWO, asks=True)
    assert two.hear(THREE, word) == [], "another router brings it"
    [answer] = two.hear(ONE, word)
    assert two.hear(ONE, word) == [], "it is over"
    [_] = one.hear(TWO, answer)
    assert one.hear(TWO, answer) == [], "it is over"
    assert two.unused == [Reason.NOT_AUTHORISED] * 3 and one.unused == [Reason.NOT_AUTHORISED]


def test_one_that_falls_silent_is_cut_off_and_what_was_proved_stays() -> None:
    one, two = End(ONE, keys(0, 600)), End(TWO, keys(0, 599))
    two.begin(ONE, asks=False)
    [word] = one.begin(TWO, asks=True)
    [answer] = two.hear(ONE, word)
    [word] = one.hear(TWO, answer)
    assert one.agreeing.due_s == AgreeingLimits().answer_s
    for end in (one, two):
        end.take(end.agreeing.tick(end.agreeing.due_s))
    [found] = one.found
    assert not found.is_whole and 200 < len(found.groups) < 599 and found.groups <= set(keys(0, 599))
    assert not two.found, "nothing was proved to it"
    assert two.hear(ONE, word) == [], "it comes too late"


def test_one_that_breaks_the_protocol_is_cut_off_with_the_reason() -> None:
    one, two = End(ONE, keys(0, 600)), End(TWO, keys(0, 599))
    two.begin(ONE, asks=False)
    [word] = one.begin(TWO, asks=True)
    assert two.hear(ONE, SayGroups(TWO, TWO, AskGroups(word.word.a, 0, b"\7"))) == []
    assert one.hear(TWO, SayGroups(ONE, ONE, TellGroups(word.word.a, 0, word.word.m))) == []
    assert one.unused == two.unused == [NOT_AGREED]
    assert [each.is_whole for each in one.found] == [False] and not one.found[0].groups


def test_more_agreements_than_there_is_room_for_end_those_without_success() -> None:
    limits = AgreeingLimits(open_max=2, groups_per_s=1, groups_burst=100)
    one = End(ONE, keys(0, 50), limits)
    first, second = (
        one.begin(other, asks=True, first=bytes((at,)) * NONCE_BYTES) for at, other in enumerate((TWO, THREE))
    )
    assert first and second
    assert one.begin(TWO, asks=True) == [], "as many groups as are compared at once"
    assert [(each.router, each.is_whole) for each in one.found] == [(TWO, False)] * 2
    assert one.begin(TWO, asks=True, now_s=50.0), "it has room again"


def test_a_router_that_meets_again_and_again_leaves_room_for_others() -> None:
    """All that is compared is bounded, so what one router takes of it is another's; and so are the places."""
    one = End(ONE, keys(0, 50))
    taken = 0
    for second in range(60):
        taken += len(one.begin(THREE, asks=True, first=second.to_bytes(1, "big") * NONCE_BYTES, now_s=second * 2.0))
    assert taken == LIMITS.of_one_burst + 118 // 15, "and not one each two seconds"
    assert one.begin(TWO, asks=True, now_s=118.0)
    other = End(ONE, keys(0, 50))
    said = other.begin(TWO, asks=True)
    for at in range(LIMITS.open_max):
        other.begin(THREE, asks=False, first=bytes((at,)) * NONCE_BYTES)
    two = End(TWO, keys(0, 50))
    two.begin(ONE, asks=False)
    while said and (answers := two.hear(ONE, said[0])):
        said = other.hear(TWO, answers[0])
    assert [(found.router, found.is_whole) for found in other.found] == [(TWO, True)]


def test_of_very_many_routers_the_one_that_began_longest_ago_is_forgotten() -> None:
    one = End(ONE, keys(0, 50), AgreeingLimits(of_one_burst=1, routers_max=2))
    routers = [PublicKey(bytes((number,)) * 32) for number in (2, 3, 2, 4, 2, 3)]
    begun = [len(one.begin(other, asks=True, first=bytes((at,)) * NONCE_BYTES)) for at, other in enumerate(routers)]
    assert begun == [1, 1, 0, 1, 0, 1], "3 is forgotten, as 2 has asked since"


def test_pairs_with_thousands_of_groups_share_all_and_tell_their_routers() -> None:
    count = TAGS_MAX + 600
    one, two = Side(1, [*keys(0, count), *keys(count, 300)]), Side(2, [*keys(0, count), *keys(count + 300, 40)])
    found = Sides(one, two)
    found.link(one, two)
    found.pass_time(10)
    for side, other in ((one, two), (two, one)):
        assert {topic.group for topic in side.rules.known.shared_with(other.router.public)} == set(keys(0, count))
        told = side.take(o.ShareGroups)
        last = told[max(at for at, page in enumerate(told) if page.page == 0) :]
        pages = [page.page for page in last if page.groups]
        assert pages == list(range(len(pages))) and len(pages) >= -(-count // GROUPS_MAX)
        assert sorted(group for page in last for group in page.groups) == sorted(keys(0, count))
        assert not [event for event in side.take(c.LogEvent) if event.event == "pubsub_refused"]
    kinds = [type(decode_message(sent.body)) for _, sent in found.sent]
    assert 0 < kinds.count(AskGroups) + kinds.count(TellGroups) <= 16
    one.hear(o.Wanted(keys(0, 1)[0], False))
    found.pass_time(20)
    assert len(two.rules.known.shared_with(one.router.public)) == count - 1


def test_a_service_that_does_not_know_of_ranges_is_met_as_before() -> None:
    """Its tags lack the one that says so, and ours is a random one to it."""
    wanted = keys(0, TAGS_MAX + 10)
    one, other = Side(1, wanted), Side(2)
    one.seconds = 5.0
    met, *_ = [decode_message(each.body) for each in one.said(other, encode_message(Meet(FIRST))) if is_send(each)]
    assert isinstance(met, Met)
    meeting = Meeting(other.router.public, one.router.public, FIRST, met.nonce)
    assert len(met.tags) == TAGS_MAX and meeting.shared((BY_RANGES,), met.tags)
    theirs = nsmallest(TAGS_MAX, wanted, key=meeting.topic)
    answers = one.said(other, encode_message(Met(FIRST, met.nonce, meeting.tags(theirs, bytes(512)))))
    shared = {topic.group for topic in one.rules.known.shared_with(other.router.public)}
    assert shared == set(theirs[: TAGS_MAX - 1])
    assert not any(isinstance(decode_message(each.body), AskGroups) for each in answers if is_send(each))


def is_send(deed: c.Deed) -> TypeGuard[c.Send]:
    return isinstance(deed, c.Send)


def test_a_router_is_told_all_groups_again_only_if_they_or_the_link_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = 20
    monkeypatch.setattr(share_groups, "GROUPS_MAX", page)
    count = page + 10
    one, two = Side(1, keys(0, count)), Side(2, keys(0, count))
    found = Sides(one, two)
    found.link(one, two)
    found.pass_time(10)

    def told(seconds: float) -> list[tuple[int, int]]:
        one.take(o.ShareGroups)
        found.pass_time(seconds)
        return [(page.page, len(page.groups)) for page in one.take(o.ShareGroups)]

    two.hear(o.Wanted(keys(count + 1, 1)[0], True))
    assert set(told(30)) == {(1, 0)}, "it lasts longer, and nothing else changes"
    for side in (one, two):
        side.hear(o.Wanted(keys(count, 1)[0], True))
    assert told(30)[:2] == [(0, page), (1, 11)]
    two.hear(o.Wanted(keys(0, 1)[0], False))
    assert told(30)[:2] == [(0, page), (1, 10)]
    one.hear(o.Wanted(keys(1, 1)[0], False))
    assert told(30)[:2] == [(0, page), (1, 9)], "what this node has left is taken back as well"
    for up in (False, True):
        for side, other in ((one, two), (two, one)):
            side.hear(o.Linked(other.router.public, other.service.public if up else None))
    assert told(30)[:2] == [(0, page), (1, 9)]


@pytest.mark.parametrize("count", (0, 1, GROUPS_MAX, GROUPS_MAX + 1, 3 * GROUPS_MAX))
def test_share_groups_come_in_pages_of_which_all_but_the_last_say_that_more_follow(count: int) -> None:
    groups = keys(0, count)
    pages = [*ShareGroups.pages(ONE, groups, 7)]
    assert [group for page in pages for group in page.groups] == groups
    assert [page.page for page in pages] == list(range(max(1, -(-count // GROUPS_MAX))))
    assert [page.more for page in pages] == [True] * (len(pages) - 1) + [False]
