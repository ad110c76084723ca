"""Catching up of nodes that hold different messages, with dictionaries as routers."""

from __future__ import annotations

import pytest
from rigs.comparing_nodes import BEGIN_S, GROUP, MONO_S, Node, T, World, message, pair

from router.core.wire.crypto import MessageId
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub import reasons
from services.pubsub.core.comparison.held import minute_at
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.comparison.negentropy import IDS, SKIP, _digits
from services.pubsub.core.comparison.plan import CompareLimits
from services.pubsub.core.conduct.clock_steps import KEPT as CLOCK
from services.pubsub.core.messages import Compare, Compared, decode_message, encode_message

HOUR = 3600


def test_each_gets_what_it_lacks_when_it_begins() -> None:
    world, left, right = pair(range(300), range(200, 700))
    world.pass_s(5)
    assert left.held.keys() == right.held.keys() and len(left.held) == 700
    assert left.told == [o.CaughtUp(GROUP, int(BEGIN_S), 0, 400)]
    assert left.asked == 400 and left.known.topics[GROUP].caught_up_s == BEGIN_S
    world.pass_s(HOUR)
    assert len(left.told) == 1 and left.asked == 400
    assert left.frames < 40


def test_nothing_is_told_where_nothing_was_missing_but_at_the_beginning() -> None:
    world, left, _ = pair(range(50), range(50))
    assert left.told == [o.CaughtUp(GROUP, int(BEGIN_S))]
    world.pass_s(HOUR)
    assert len(left.told) == 1


def test_a_dropped_queue() -> None:
    """3 of 200 have expired by the time that this node is back."""
    world, left, right = pair(range(0), range(0))
    world.pass_s(10)
    right.hold(*(message(number, 1 if number < 3 else 600) for number in range(200)))
    world.pass_s(120)
    frames = left.frames
    world.hear(left, o.Dropped(right.me.router, GROUP, 200))
    world.run()
    assert left.told[-1] == o.CaughtUp(GROUP, int(BEGIN_S + 130), 3, 200)
    assert len(left.held) == 197 and left.frames > frames


def test_after_an_absence() -> None:
    """After an absence of more than 30 s, the comparison is with that neighbour, at once."""
    world, left, right = pair(range(10), range(10))
    world.pass_s(10)
    right.hold(*map(message, range(10, 20)))
    for away_s, held in ((20, 10), (40, 20)):
        world.link(left, right, False)
        world.pass_s(away_s)
        world.link(left, right)
        world.run()
        assert len(left.held) == held
    assert left.told[-1] == o.CaughtUp(GROUP, int(BEGIN_S + 70), 0, 10)


def flap(world: World, node: Node, other: Node) -> None:
    """Let a neighbour on the ring be away for a moment."""
    topic = node.known.topics[GROUP]
    for live in ((), (other.me,)):
        topic.show((), (), live)
    world.hear(node, c.Tick())
    world.run()


def test_with_a_neighbour_that_was_away_for_a_moment() -> None:
    """The absence may not be noticed on any link; a second comparison within 5 s waits until these are over."""
    left, right = Node(1), Node(2)
    left.on_ring = True
    world = World(left, right)
    world.pass_s(10)
    for count, wait_s in ((1, 0.0), (2, 5.0)):
        right.hold(message(count))
        flap(world, left, right)
        assert len(left.held) == 1, "at once the first time, and not again so soon"
        world.pass_s(wait_s + 1.1)
        assert len(left.held) == count


def test_one_that_goes_and_comes_without_end_costs_a_comparison_in_five_seconds() -> None:
    left, right = Node(1), Node(2)
    left.on_ring = True
    world = World(left, right)
    world.pass_s(10)
    before = left.frames
    for _ in range(200):
        flap(world, left, right)
        world.pass_s(0.5)
    assert 100 / CompareLimits().apart_s * 0.8 < left.frames - before <= 100 / CompareLimits().apart_s + 1


def test_a_neighbour_with_which_all_topics_are_to_be_compared_has_its_share() -> None:
    """32 begin at once, then one a second."""
    left, right = Node(1), Node(2)
    part, now = left.part, c.Now(BEGIN_S, 1000.0)
    begun = sum(part._places.may_begin(right.me.router, now) for _ in range(100))
    later = sum(part._places.may_begin(right.me.router, c.Now(BEGIN_S, 1010.0)) for _ in range(100))
    assert (begun, later) == (CompareLimits().begins_burst, 10)


def test_a_frame_that_is_refused_is_said_to_nobody_as_caught_up() -> None:
    """The other has forgotten the shared groups: it is asked again soon, and does not count as gone."""
    left, right = Node(1), Node(2)
    left.on_ring = right.away = True
    right.hold(message(1))
    world = World(left, right)
    world.hear(left, c.HopOutcome("compared 1", MessageId(bytes(32)), right.me.router, "refused", reasons.MEET_FIRST))
    world.run()
    assert not left.told and left.known.topics[GROUP].neighbours
    right.away = False
    world.pass_s(7)
    assert len(left.held) == 1 and len(left.told) == 1


def test_after_this_machine_slept() -> None:
    world, left, right = pair(range(10), range(10))
    world.pass_s(10)
    right.hold(*map(message, range(10, 20)))
    left.ahead_s += 60
    world.hear(left, c.Tick())
    world.run()
    assert len(left.held) == 10, "a clock that is set is no sleep"
    left.slept_s += 60
    world.hear(left, c.Tick())
    world.run()
    assert len(left.held) == 20


def test_every_five_minutes() -> None:
    world, left, right = pair(range(10), range(10))
    world.pass_s(10)
    right.hold(*map(message, range(10, 20)))
    world.hear(right, c.Message(message(19)[0], b"", group=GROUP))
    world.run()
    world.pass_s(400)
    assert len(left.held) == 20


def test_a_topic_in_which_nothing_comes_is_compared_every_few_hours() -> None:
    world, left, right = pair(range(10), range(10))
    world.pass_s(10)
    before = left.frames + right.frames
    world.pass_s(2 * HOUR)
    assert left.frames + right.frames == before
    world.hear(left, c.Message(message(10)[0], b"", group=GROUP))
    world.run()
    world.pass_s(400)
    assert left.frames == before // 2 + 1, "a message has come, so others may lack it"
    world.pass_s(2 * HOUR)
    assert 6 <= left.frames - before // 2 <= 10, "it is compared as others are for half an hour"
    at = left.frames + right.frames
    world.pass_s(5 * HOUR)
    assert at + 1 <= left.frames + right.frames <= at + 5


def test_what_was_published_a_moment_before_another_was_in_the_group_is_told_at_its_first_comparison() -> None:
    """Nobody has sent it on there; it came with the next comparison, minutes later, if it was published within two
    seconds of one with a third node."""
    left, right, third = Node(1), Node(2), Node(3)
    world = World(left, right, third)
    world.pass_s(10)
    for node in (left, third):
        world.link(right, node, False)
        world.link(node, right, False)
    world.pass_s(40)
    world.link(left, right)
    world.run()
    right.hold(message(1))
    world.pass_s(0.5)
    world.link(third, right)
    world.run()
    assert third.held


@pytest.mark.parametrize("ahead_s", [HOUR, -HOUR])
def test_a_clock_an_hour_off(ahead_s: float) -> None:
    """Messages that expire within the hour are left out by both; the others are compared, and none is sent in vain."""
    left, right = Node(1, ahead_s=ahead_s), Node(2)
    left.hold(*(message(number, number) for number in range(10, 200, 2)))
    right.hold(*(message(number, number) for number in range(10, 200, 3)))
    world = World(left, right)
    world.pass_s(5)
    latest = {id for id, minute in (*left.held.items(), *right.held.items()) if minute > minute_at(BEGIN_S) + 63}
    assert latest <= left.held.keys() and latest <= right.held.keys()
    asked = left.asked + right.asked + left.forwarded + right.forwarded
    world.pass_s(2 * 300)
    assert left.asked + right.asked + left.forwarded + right.forwarded == asked


def test_different_limits_of_history() -> None:
    """One side has deleted old messages: it does not ask for those it knew, and is sent none twice."""
    world, left, right = pair(range(600), range(600))
    left.forget(500)
    world.pass_s(6 * HOUR)
    assert right.forwarded == 500 and right.asked == 0
    assert left.forwarded == 0 and len(left.held) == 100
    assert left.told == [o.CaughtUp(GROUP, int(BEGIN_S))]
    assert left.asked <= 500 * 9  # in four hours: after 5, 10, 20, 40 and 60 minutes, and when the other asks


def test_a_neighbour_without_an_answer_is_asked_again_soon() -> None:
    world, left, right = pair(range(10), range(20))
    left.held.clear()
    left.knows.clear()
    left.gone = 1
    right.away = True
    world.pass_s(280)
    asked = left.frames
    world.pass_s(120)
    assert left.frames > asked + 1
    right.away = False
    world.pass_s(60)
    assert len(left.held) == 20


def test_ids_that_nobody_has() -> None:
    """At most 64 questions are open; when none of 64 is answered the rest is given up."""
    world, left, right = pair(range(0), range(0))
    world.pass_s(10)
    right.hold(*map(message, range(1000)))
    gone, right.held = right.held, {}
    right.page = lambda after: o.HeldPage(  # type: ignore[method-assign]
        GROUP, b"".join(key_of(minute, id) for id, minute in gone.items()), 1000, False, 1, after=after
    )
    world.hear(left, o.Dropped(right.me.router, GROUP, 1))
    world.run()
    assert left.asked == 64
    world.pass_s(60)
    assert left.asked <= 3 * 64 and not left.held
    assert left.told[-1].missing == left.told[-1].of == 1000


def test_fingerprints_that_never_agree() -> None:
    left, right = Node(1), Node(2)
    left.hold(*map(message, range(500)))
    world = World(left)
    left.others = {right.me.router: right}
    left.want()
    frame = b"\x61\x00\x00\x01" + bytes(16)
    sent = list[Compare]()

    def carry_out(node: Node, deed: c.Deed) -> None:
        if isinstance(deed, c.Send):
            said = decode_message(deed.body)
            assert isinstance(said, Compare)
            sent.append(said)
            world.read(node, right, Compared(said.t, said.lo, said.hi, frame))
        elif not isinstance(deed, c.Wake):
            World._carry_out(world, node, deed)

    world._carry_out = carry_out  # type: ignore[method-assign]
    world.hear(left, c.Tick())
    world.now_s = 2
    world.link(left, right)
    world.run()
    assert len(sent) == 64
    assert left.told[-1] == o.CaughtUp(GROUP, int(BEGIN_S + 2), 0, 0)


def test_one_comparison_at_a_time_with_a_neighbour() -> None:
    left, right = Node(1), Node(2)
    right.away = True
    world = World(left, right)
    for _ in range(5):
        world.hear(left, o.Dropped(right.me.router, GROUP, 1))
        world.run()
    assert left.frames == 1


def test_neighbours_on_the_ring_need_no_link() -> None:
    """A neighbour that does not answer is not live until the ring finds it again."""
    left, right = Node(1), Node(2)
    left.on_ring = True
    right.hold(*map(message, range(10)))
    world = World(left, right)
    assert len(left.held) == 10
    right.away = True
    world.link(left, right, False)
    world.pass_s(600)
    assert not left.known.topics[GROUP].others


def test_what_is_refused() -> None:
    world, left, right = pair(range(10), range(10))
    ask = Compare(T, 0, 1 << 31, b"\x61")
    world.read(left, right, Compare(b"x" * 16, 0, 1, b"\x61"))
    world.read(left, right, Compared(T, 0, 1, b"\x61"))
    world.read(left, right, Compare(T, 0, 1, b"\x61\x05"))
    world.run()
    assert [one.reason for one in left.refused] == [reasons.MEET_FIRST, reasons.MEET_FIRST, reasons.NOT_COMPARED]
    left.refused.clear()
    for _ in range(int(CompareLimits().frames_burst) + 40):
        world.read(left, right, ask)
        world.run()
    assert {one.reason for one in left.refused} == {reasons.LIMIT} and 30 < len(left.refused) < 60


@pytest.mark.parametrize("given", [_digits(SKIP), _digits(IDS) + _digits(0), _digits(3)])
def test_neighbour_that_asks_about_thousands_of_ranges_uses_up_its_frames(given: bytes) -> None:
    """Each range costs as much as a small frame does, though three bytes are enough for it."""
    world, left, right = pair(range(10), range(10))
    frame = b"\x61" + (_digits(1) + _digits(0) + given) * (60_000 // (2 + len(given)))
    limits = CompareLimits()
    asked = 0
    while not any(one.reason is reasons.LIMIT for one in left.refused):
        world.read(left, right, Compare(T, 0, 1 << 31, frame))
        world.run()
        asked += 1
    assert asked <= limits.frames_burst * limits.ranges_of_frame / (60_000 / 4) + 2


def test_an_unknown_version() -> None:
    world, left, right = pair(range(10), range(10))
    [said] = [
        decode_message(deed.body)
        for deed in left.part.read(
            c.Message(MessageId(bytes(32)), b"", right.me.service, via=right.me.router),
            Compare(T, 0, 1 << 31, b"\x62\x00"), world.now(left),
        )
        if isinstance(deed, c.Send)
    ]  # fmt: skip
    assert isinstance(said, Compared) and said.m == b"\x61"
    assert encode_message(said)


def test_a_clock_that_was_set_is_kept_whatever_event_shows_it() -> None:
    node = Node(1)
    [put] = node.part.hear(o.Signed(""), c.Now(BEGIN_S + HOUR, MONO_S))
    assert isinstance(put, c.Put) and put.key == CLOCK


def test_a_topic_that_is_left() -> None:
    world, left, right = pair(range(0), range(0))
    right.hold(*map(message, range(1000)))
    del left.known.topics[GROUP]
    world.hear(left, o.Wanted(GROUP, False))
    world.pass_s(HOUR)
    assert not left.held
    assert repr(left.part) == "<comparing: 0 open, <0 ids held of 0 topics>>"


def acknowledged(world: World, left: Node, right: Node, *numbers: int) -> None:
    """Let one node remember copies to the other, the first of which were acknowledged earlier."""
    withholding = left.known.withholding
    for at, number in enumerate(numbers):
        id, minute = message(number)
        withholding.sent(right.me.router, GROUP, key_of(minute, id), MONO_S + world.now_s)
        withholding.taken(right.me.router, id, MONO_S + world.now_s - 60 - 70 * (len(numbers) - at))


def test_a_comparison_shows_that_the_other_lost_what_it_took() -> None:
    """Of two copies it lacks the later one; it is compared with for that, and gets it again."""
    world, left, right = pair(range(50), range(50))
    world.pass_s(310)
    acknowledged(world, left, right, 3, 4)
    lost, _ = message(4)
    del right.held[lost]
    right.knows.discard(lost)
    right.gone += 1
    world.hear(left, c.Tick())
    world.run()
    assert left.known.withholding.proofs(right.me.router, MONO_S + world.now_s) == (1, 0) and lost in right.held
    assert right.known.withholding.suspects == []


def test_a_comparison_in_which_the_other_holds_what_it_took_is_no_proof() -> None:
    world, left, right = pair(range(50), range(50))
    world.pass_s(310)
    acknowledged(world, left, right, 3, 4)
    frames = left.frames
    world.hear(left, c.Tick())
    world.run()
    assert left.known.withholding.suspects == [] and left.frames > frames
