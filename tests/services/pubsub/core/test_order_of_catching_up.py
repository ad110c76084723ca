"""The order in which a node that catches up gets missing messages, and which of them are history; routers are
dictionaries."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.comparing_nodes import BEGIN_S, GROUP, Node, T, World, message, pair

from router.core.wire.lifetime import EPOCH_S, UINT32_MAX
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.arrival_order import LISTING_BYTES_MAX, ORDER_BYTES_MAX, read_ranks, write_ranks
from services.pubsub.core.comparison.begun import AGE_MAX_S, Begun
from services.pubsub.core.comparison.fetching import Fetching, FetchLimits
from services.pubsub.core.comparison.id_set import END, RANK_MAX, IdSet, key_of
from services.pubsub.core.comparison.negentropy import Differences, IdRange, Needed, answer, ask, go_on
from services.pubsub.core.conduct.clock_steps import ClockSteps
from services.pubsub.core.messages import BODY_BYTES_MAX, Compared, encode_message
from services.pubsub.core.sending.untaken import Own

HOUR = 3600


# -- the order of ids that are listed --------------------------------------------------------------------------


@given(st.lists(st.integers(0, RANK_MAX), max_size=100))
def test_ranks_as_bytes(ranks: list[int]) -> None:
    assert read_ranks(write_ranks(ranks)) == ranks


def test_exact_bytes_of_ranks() -> None:
    assert write_ranks([]) == b""
    assert write_ranks([7, 5, 260]) == bytes.fromhex("01 00000005 02 00 ff")
    assert write_ranks([5, 261]) == bytes.fromhex("02 00000005 0000 0100")


@pytest.mark.parametrize("order", ["00", "05 00000000 0000000000", "01 00000000", "02 00000000 00", "01 ffffffff 01"])
def test_an_order_that_is_none(order: str) -> None:
    with pytest.raises(ValueError, match="order"):
        read_ranks(bytes.fromhex(order))


def test_the_longest_list_with_its_order_fits_a_message() -> None:
    random = Random(1)
    held = IdSet()
    for rank in random.sample(range(RANK_MAX), 3_000):
        held.add([key_of(1, random.randbytes(32))], rank)
    found = answer(IdRange(held), b"\x61\x00\x00\x02\x00", LISTING_BYTES_MAX)
    order = write_ranks(found.ranks)
    assert len(found.ranks) > 1_500 and len(order) <= ORDER_BYTES_MAX
    assert len(encode_message(Compared(T, 1, 2, found.frame, order, RANK_MAX))) <= BODY_BYTES_MAX


@given(st.integers(0, 1 << 32), st.integers(1, 300), st.integers(0, 300), st.integers(1_500, 52_000))
def test_every_id_is_found_with_its_rank(seed: int, here: int, there: int, most: int) -> None:
    """Every id is found with its rank however many frames it takes, and whatever both sides have already."""
    random = Random(seed)
    keys = [key_of(1 + random.randrange(3), random.randbytes(32)) for _ in range(here + there)]
    mine, theirs, found = IdSet(keys[:here]), IdSet(random.sample(keys, here + there)), Differences()
    frame = ask(IdRange(mine), most)
    while frame:
        listed = answer(IdRange(theirs), frame, most)
        frame = go_on(IdRange(mine), listed.frame, found, most, listed.ranks)
    assert {id: one.rank for id, one in found.need.items()} == {key[4:]: theirs.rank(key) for key in keys[here:]}
    assert theirs.position(END) == here + there and theirs.rank(bytes(36)) == RANK_MAX


# -- what is asked for first -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_is_missed_comes_in_the_order_in_which_the_other_took_it(seed: int) -> None:
    """There are 2,500 messages of one minute, some of which this node has; the other begins with the earliest."""
    left, right = Node(1), Node(2)
    said = [message(number) for number in range(2_500)]
    right.hold(*said)
    left.hold(*Random(seed).sample(said, 100 * seed))
    had = set(left.held)
    World(left, right)
    assert left.given == [id for id, _ in said if id not in had]


def test_what_the_other_lacks_is_sent_on_in_the_order_in_which_it_was_taken_here() -> None:
    """The other asks for nothing, because it has only just compared."""
    world, left, right = pair(range(300), range(300))
    world.pass_s(10)
    said = [message(number) for number in range(300, 600)]
    left.hold(*said)
    world.link(left, right, False)
    world.pass_s(40)
    world.link(left, right)
    world.run()
    assert right.given == [id for id, _ in said] and left.forwarded == 300


LOST = st.lists(st.tuples(st.integers(0, 199), st.sampled_from(["lost", "later", "twice"])), max_size=40)


@given(LOST, st.integers(1, 80))
def test_none_comes_long_before_one_that_the_other_took_earlier(lost: list[tuple[int, str]], ahead: int) -> None:
    """Whatever answers are lost or put off, no more than `ahead_max` come before one that is still to come."""
    ids = [message(number)[0] for number in range(200)]
    fates = {ids[at]: [fate] * (1 + (fate == "twice")) for at, fate in lost}
    fetching = Fetching(FetchLimits(ahead_max=ahead, asks_max=4, unanswered_max=10_000))
    fetch = fetching.begin(GROUP, Node(2).me.router)
    shuffled = Random(1).sample(range(200), 200)
    fetch.add({ids[at]: Needed(1, 1, at) for at in shuffled})
    fetch.close()
    came, now_s = list[int](), 0.0
    while not fetch.is_over:
        now = c.Now(BEGIN_S + now_s, now_s)
        deeds = fetching.go_on(now)
        for deed in deeds:
            assert isinstance(deed, o.PullFrom)
            fate = fates.get(deed.id, [])
            match fate.pop() if fate else "":
                case "later":
                    fetching.pulled_from(o.PulledFrom(deed.router, GROUP, deed.id, "later"), now)
                case "":
                    assert fetching.arrived(deed.id)
                    came.append(ids.index(deed.id))
        if not deeds:
            now_s += 1.0
            fetching.tick(c.Now(BEGIN_S + now_s, now_s))
    assert sorted(came) == list(range(200)) and fetch.came == 200
    assert all(number < came[at] + ahead for at in range(200) for number in came[:at])


def test_fetches_of_one_topic_go_one_after_the_other() -> None:
    fetching, ids = Fetching(), [message(number)[0] for number in range(6)]
    first, second = (fetching.begin(GROUP, Node(number).me.router) for number in (2, 3))
    second.add({ids[3]: Needed(1, 1)})
    second.close()
    now = c.Now(BEGIN_S, 0)
    assert len(fetching.go_on(now)) == 1, "the first is not closed yet"
    first.add({id: Needed(1, 1, at) for at, id in enumerate(ids[:3])})
    first.close()
    assert len(fetching.go_on(now)) == 3
    second.add({ids[4]: Needed(1, 1)})
    assert [fetching.arrived(id) for id in ids[:4]] == [True] * 4
    assert {one.came for one in fetching.take_over()} == {1, 3}


# -- history -----------------------------------------------------------------------------------------------------


def test_what_was_said_before_is_history_and_what_is_said_since_is_news() -> None:
    """The result is the same if the other got more messages meanwhile, and if a clock is an hour off."""
    for ahead_s in (0, HOUR, -HOUR):
        left, right = Node(1, ahead_s=ahead_s), Node(2)
        right.hold(*map(message, range(50)), at_s=BEGIN_S - 5)
        right.hold(*map(message, range(50, 60)), at_s=BEGIN_S - 1)
        world = World(left, right)
        assert left.held.keys() == right.held.keys()
        assert left.given == [message(number)[0] for number in range(50, 60)]
        assert left.told[0].of == 10, "nobody missed what is history"
        world.pass_s(100)
        right.hold(*map(message, range(60, 80)), at_s=world.now(right).wall_s)
        world.hear(left, o.Dropped(right.me.router, GROUP, 20))
        world.run()
        world.pass_s(10)
        assert left.given == [message(number)[0] for number in range(50, 80)]


def test_what_nobody_has_taken_yet_is_news_to_whoever_comes_first() -> None:
    left, right = Node(1), Node(2)
    right.hold(*map(message, range(20)), at_s=BEGIN_S - 60)
    id, minute = message(15)
    right.known.oldest_untaken = lambda *_: (id, Own(GROUP, EPOCH_S + minute * 60))
    World(left, right)
    assert left.held.keys() == right.held.keys()
    assert left.given == [message(number)[0] for number in range(15, 20)]


def test_history_that_nobody_sends_is_no_loss() -> None:
    fetching, ids = Fetching(), [message(number)[0] for number in range(4)]
    fetch = fetching.begin(GROUP, Node(2).me.router)
    fetch.old = 2
    fetch.add({id: Needed(1, 1, at) for at, id in enumerate(ids)})
    fetch.close()
    asked = fetching.go_on(c.Now(BEGIN_S, 0))
    assert [one.is_history for one in asked if isinstance(one, o.PullFrom)] == [True, True, False, False]
    assert fetching.is_history(ids[1]) and not fetching.is_history(ids[2])
    assert fetching.arrived(ids[0]) and fetching.arrived(ids[2]) and not fetching.is_history(ids[0])
    fetch.give_up()
    assert (fetch.news, fetch.missing, fetch.came) == (2, 1, 1)


def test_an_answer_that_took_long_makes_nothing_history() -> None:
    left, right = Node(1), Node(2)
    right.hold(*map(message, range(10)), at_s=BEGIN_S - 60)
    right.away = True
    world = World(left, right)
    world.pass_s(3)
    [session] = left.part._sessions.values()
    found = answer(IdRange(_held(right)), ask(IdRange(IdSet())))
    right.away = False
    said = Compared(T, session.lo, session.hi - 1, found.frame, write_ranks(found.ranks), 10)
    world.read(left, right, said)
    world.run()
    assert left.given == [message(number)[0] for number in range(10)]


def _held(node: Node) -> IdSet:
    return IdSet(key_of(minute, id) for id, minute in node.held.items())


def started(kept: dict[bytes, bytes], now: c.Now) -> Begun:
    """Return the topics of a service that starts with the kept rows; keep its rows about the clock."""
    steps = ClockSteps(kept)
    keep(kept, steps.look(now))
    return Begun(kept, steps)


def keep(kept: dict[bytes, bytes], deeds: list[c.Deed]) -> None:
    for deed in deeds:
        assert isinstance(deed, c.Put) and deed.value is not None
        kept[deed.key] = deed.value


def test_a_service_that_starts_again_begins_no_topic_anew() -> None:
    kept: dict[bytes, bytes] = {}
    deeds = started(kept, c.Now(BEGIN_S, 5.0)).begin(GROUP, c.Now(BEGIN_S, 5.0))
    keep(kept, deeds)
    again = started(kept, c.Now(BEGIN_S + 100, 105.0))
    assert again.begin(GROUP, c.Now(BEGIN_S + 100, 105.0)) == []
    assert again.age_s(GROUP, c.Now(BEGIN_S + 100, 105.0)) == 103
    assert again.age_s(GROUP, c.Now(BEGIN_S + 50, 115.0)) == 113, "the clock was set back"
    assert again.age_s(GROUP, c.Now(BEGIN_S + AGE_MAX_S, 115.0)) == UINT32_MAX, "in a week nothing is history"
    [deed] = deeds
    assert isinstance(deed, c.Put)
    assert again.end(GROUP) == [c.Put(deed.key, None)]
    del kept[deed.key]
    assert again.end(GROUP) == []


@pytest.mark.parametrize(
    "now",
    [c.Now(BEGIN_S + 700, 105.0), c.Now(BEGIN_S - 700, 105.0), c.Now(BEGIN_S + 100, 3.0)],
    ids=["set forward", "set back", "the machine started again"],
)
def test_where_the_clock_was_set_meanwhile_nothing_is_history(now: c.Now) -> None:
    kept: dict[bytes, bytes] = {}
    keep(kept, started(kept, c.Now(BEGIN_S, 5.0)).begin(GROUP, c.Now(BEGIN_S, 5.0)))
    again = started(kept, now)
    again.begin(GROUP, now)
    assert again.age_s(GROUP, now) == UINT32_MAX


def test_a_clock_is_steady_since_it_was_set_last() -> None:
    kept: dict[bytes, bytes] = {}
    steps = ClockSteps(kept)
    keep(kept, steps.look(c.Now(BEGIN_S, 5.0)))
    assert not steps.is_steady_for(1, c.Now(BEGIN_S, 5.0)) and steps.is_steady_for(10, c.Now(BEGIN_S + 11, 16.0))
    assert steps.look(c.Now(BEGIN_S + 12.0, 16.0)) == [], "it strays a little"
    keep(kept, steps.look(c.Now(BEGIN_S + 712, 17.0)))
    for one in (steps, ClockSteps(kept)):
        assert one.look(c.Now(BEGIN_S + 722, 27.0)) == []
        assert one.is_steady_for(10, c.Now(BEGIN_S + 722, 27.0)) and not one.is_steady_for(
            11, c.Now(BEGIN_S + 722, 27.0)
        )
