"""A pool beside a node that behaves as a live Nexa node does: offers cross both ways, whenever they were made."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from samples.capd import BORN, posted
from samples.capd_host import ASKERS
from samples.capd_live import Link, LiveNode, pass_time
from samples.capd_net import Client, Pool, greeted, parted, peers, post

from router.service import contract as c
from services.capd import reasons
from services.capd.core import lookups
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa import questioning
from services.capd.core.nexa.neighbours import DOOR
from services.capd.core.pattern import Pattern
from services.capd.settings import Settings

PLACE = "127.0.0.1:7001"
FLOOR = n.PoolLines(1.0, 2.0, 2.0)
ALL = Pattern.prefix(b"")
_NUMBERS = count()


def offers(amount: int, priority: float = 4.0, kind: bytes = b"TKD\x0c", born: int = BORN) -> list[CapdMessage]:
    return [posted(kind + b"%d" % next(_NUMBERS), priority, born) for _ in range(amount)]


def settings(fetch: bool = True) -> Settings:
    return Settings(network="regtest", connect=(PLACE,), fetch=fetch)


def held(pool: Pool) -> set[bytes]:
    found: set[bytes] = set()
    while True:
        page = pool.ask(m.Query(1, ALL, True, len(found), 8192))
        if not page.ids:
            return found
        found |= set(page.ids)


def asked(client: Client) -> list[n.PrefixQuery]:
    return [one for one in client.take() if isinstance(one, n.PrefixQuery)]


def reply(client: Client, query: n.PrefixQuery, *messages: CapdMessage, total: int | None = None) -> None:
    answer = n.MessagesReply(query.cookie, len(messages) if total is None else total, messages)
    client.session.say(answer, 0x1_FFFF)
    client.flush()


def few_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything be found by 1,024 prefixes, of which 25 are asked for in a second."""
    monkeypatch.setattr(questioning, "PREFIXES", 1 << 10)
    monkeypatch.setattr(questioning, "PER_S", 25.0)


@pytest.mark.long
def test_everything_is_fetched_within_a_minute_by_all_prefixes_of_two_bytes() -> None:
    pool, node = Pool(settings()), LiveNode()
    old = [*offers(300, kind=b"\x00\x00"), *offers(3, kind=b"\xff\xff"), *offers(100)]
    for one in old:
        post(node, one)
    Link(pool, node, PLACE)
    pass_time(60, pool, node)
    assert held(pool) == {one.own_id() for one in old}


@pytest.mark.parametrize("each", [80, pytest.param(334, marks=pytest.mark.long)])
def test_messages_of_either_side_before_during_and_after_a_link_are_at_both_ends_within_a_minute(
    each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`each`: how many at a time; 334 are two thousand in all."""
    few_prefixes(monkeypatch)
    pool, node = Pool(settings()), LiveNode()
    sides = {
        pool: [offers(each, kind=b"P%d" % turn) for turn in range(3)],
        node: [offers(each, kind=bytes((turn, 255))) for turn in range(3)],
    }
    for one in (pool, node):
        for message in sides[one][0]:
            assert post(one, message) == 0
    link = Link(pool, node, PLACE)
    pass_time(2, pool, node)
    for one in (pool, node):
        for message in sides[one][1]:
            post(one, message)
    pass_time(58, pool, node)
    first = {message.own_id() for side in sides.values() for some in side[:2] for message in some}
    assert held(pool) == held(node) == first
    link.cut()
    for one in (pool, node):
        for message in sides[one][2]:
            post(one, message)
    link = Link(pool, node, PLACE)
    pass_time(60, pool, node)
    assert held(pool) == held(node) == first | {one.own_id() for side in sides.values() for one in side[2]}
    assert peers(pool)["neighbours"][0]["points"] == 0 == peers(node)["neighbours"][0]["points"]
    assert "capdgetheld" in node.heard_of and not parted(pool)[1:]


def test_search_of_a_wallet_waits_for_what_a_node_holds_and_asks_it_once_in_a_while() -> None:
    pool, node = Pool(settings(fetch=False)), LiveNode()
    old = [*offers(450), *offers(3, kind=b"other")]
    for one in old:
        post(node, one)
    Link(pool, node, PLACE)
    pass_time(1, pool, node)
    assert held(pool) == set(), "nobody has asked for it"
    found = pool.ask(m.Query(1, Pattern.of(b"TKD\x0c", b"\xff\xff\xff\xff"), True, 0, 1000))
    assert found.count == 450 and held(pool) == {one.own_id() for one in old[:450]}
    node.heard_of.clear()
    assert pool.ask(m.Query(1, Pattern.prefix(b"TKD\x0c"), True, 0, 1000)).count == 450
    assert node.heard_of == [], "asked a moment ago"
    assert pool.ask(m.Query(1, Pattern.of(b"oth\0", b"\xff\xff\xff\0"), True, 0, 9)).count == 3, "by two bytes of three"


def test_standing_query_of_a_wallet_finds_what_a_node_holds_and_what_comes_there_below_our_line() -> None:
    pool, node = Pool(settings(fetch=False)), LiveNode()
    before, weak = *offers(1), *offers(1, 2.5)
    post(node, before)
    pool.ask(m.Watch(1, Pattern.prefix(b"TKD\x0c"), 600), ASKERS[1])
    Link(pool, node, PLACE)
    pass_time(2, pool, node)
    assert [(asker, wire) for asker, wire, _ in pool.matches] == [(ASKERS[1], before.encoded())]
    pass_time(150, pool, node)
    assert post(node, weak) == 0  # 1.9 by now: nobody announces it
    pass_time(2, pool, node)
    assert len(pool.matches) == 2
    pool.ask(m.Unwatch(2, Pattern.prefix(b"TKD\x0c")), ASKERS[1])
    pass_time(2, pool, node)
    assert "capdremove" in node.heard_of
    post(node, posted(b"TKD\x0clate", 2.5, int(pool.now.wall_s) - 130))
    assert len(pool.matches) == 2


@pytest.mark.parametrize("profile", ("strict", "compat"))
@pytest.mark.parametrize("amount", [5, 450])
def test_search_finds_the_newest_first_of_what_a_node_answers_on_one_page_or_several(profile: str, amount: int) -> None:
    ours = msgspec.convert({"network": "regtest", "connect": [PLACE], "profile": profile}, Settings)
    pool, node = Pool(ours), LiveNode()
    old = offers(amount)
    for one in old:
        post(node, one)
    Link(pool, node, PLACE)
    pass_time(1, pool, node)
    found = pool.ask(m.Query(1, Pattern.prefix(b"TKD\x0c"), True, 0, 8192))
    assert found.ids == tuple(one.own_id() for one in old[::-1])


@pytest.mark.parametrize("why", ("closed", "slow", "much"))
def test_page_of_an_answer_is_kept_though_the_rest_does_not_come(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    client = greeted(pool)
    client.say(FLOOR)
    pool.ask(m.Watch(1, Pattern.prefix(b"TKD\x0c"), 600))
    pool.pass_time(1)
    if why == "much":
        monkeypatch.setattr(questioning, "HELD_BYTES_MAX", 100)
    [query] = asked(client)
    page = offers(3)
    reply(client, query, *page, total=6)
    if why == "closed":
        pool.hear(c.Came(DOOR, client.peer, b""))
    elif why == "slow":
        assert held(pool) == set()
        pool.pass_time(questioning.HOLD_S + 1)
    assert pool.ask(m.Query(1, ALL, True, 0, 9)).ids == tuple(one.own_id() for one in page)


def test_search_does_not_wait_longer_than_seconds_and_others_do_not_wait() -> None:
    pool = Pool()
    silent = greeted(pool)
    silent.say(FLOOR)
    pool.pass_time(1)
    mine = offers(1)[0]
    post(pool, mine)
    body = m.encode_message(m.Query(1, Pattern.prefix(b"TKD\x0c"), True, 0, 9))
    assert not [one for one in pool.say(body, ASKERS[0]) if isinstance(one, c.Send)]
    [query] = asked(silent)
    assert (query.content, query.type, query.start) == (b"TKD\x0c", n.MESSAGES, 0)
    assert pool.ask(m.Query(1, ALL, True, 0, 9), ASKERS[1]).count == 1, "of all, no node can be asked"
    sent: list[c.Send] = []
    for second in range(5):
        assert not sent or second >= lookups.WAIT_S
        sent += [one for one in pool.pass_time(1) if isinstance(one, c.Send)]
    [one] = sent
    answer = m.decode_message(one.body)
    assert isinstance(answer, m.FoundIds) and answer.ids == (mine.own_id(),)


def test_neighbour_of_ours_and_one_without_a_line_are_not_asked() -> None:
    pool = Pool(Settings(network="regtest", fetch=True))
    ours, silent = greeted(pool), greeted(pool, "203.0.113.7:1", 3)
    ours.say(own.GetHeld(0), FLOOR)
    pool.ask(m.Watch(1, Pattern.prefix(b"TKD\x0c"), 600))
    pool.pass_time(2)
    assert pool.ask(m.Query(1, Pattern.prefix(b"TKD\x0c"), True, 0, 9)).count == 0
    assert asked(ours) == asked(silent) == []


# -- neighbours that lie --------------------------------------------------------------------------------------------


def test_answer_that_was_not_asked_for_is_not_taken_and_costs_points() -> None:
    pool = Pool()
    liar, honest = greeted(pool, "203.0.113.7:1"), greeted(pool, "203.0.113.8:1", 5)
    liar.say(FLOOR)
    pool.ask(m.Watch(1, Pattern.prefix(b"TKD\x0c"), 600))
    pool.pass_time(1)
    [query] = asked(liar)
    right, wrong = offers(1), offers(99, kind=b"JUNK")
    reply(liar, query, *right, *wrong)
    assert held(pool) == {right[0].own_id()} and peers(pool)["neighbours"][0]["points"] == 99
    [note] = [one for one in pool.events("capd_turned_away") if one.reason is reasons.NOT_ASKED]
    assert note.fields["by"] == "203.0.113.7:1"
    reply(liar, query, *wrong[:1])
    assert liar.is_closed and parted(pool) == [(reasons.MISBEHAVED, "answers with what it was not asked for")]
    assert honest.say(n.GetInfo()) and held(pool) == {right[0].own_id()}


def test_answers_to_no_question_cost_units_and_are_dropped() -> None:
    pool = Pool()
    liar = greeted(pool)
    liar.say(FLOOR)
    reply(liar, n.PrefixQuery(77, n.MESSAGES, 0, 9, b"TK"), *offers(200))
    ids = tuple(number.to_bytes(32) for number in range(20_000))
    liar.say(n.IdsReply(77, 20_000, ids), n.BadLengthReply(77, 3))
    assert held(pool) == set() and not liar.is_closed
    assert {one.reason for one in pool.events("capd_turned_away")} == {reasons.NOT_ASKED}
    for _ in range(10):
        liar.say(n.IdsReply(77, 20_000, ids))
    assert liar.is_closed and parted(pool)[-1][0] is reasons.ASKS_TOO_MUCH


def test_answer_without_end_ends_after_fifty_pages_and_one_of_ids_is_given_up() -> None:
    pool = Pool()
    liar = greeted(pool)
    liar.say(FLOOR)
    mine = offers(3)
    for one in mine:
        post(pool, one)
    pool.ask(m.Watch(1, Pattern.prefix(b"TKD\x0c"), 600))
    pool.pass_time(1)
    pages = 0
    while queries := asked(liar):
        pages += 1
        reply(liar, queries[0], *mine, total=0xFFFF_FFFF)  # our own, again and again
    assert pages == questioning.PAGES_MAX and not liar.is_closed
    [link] = peers(pool)["neighbours"]
    assert link["known"] == 3 * questioning.PAGES_MAX and link.get("taken", 0) == 0
    body = m.encode_message(m.Query(1, Pattern.prefix(b"TKD\x0c"), True, 0, 9))
    assert not [one for one in pool.say(body) if isinstance(one, c.Send)]
    [query] = asked(liar)
    liar.say(n.IdsReply(query.cookie, 3, tuple(one.own_id() for one in mine)))
    assert pool.ask(m.Query(2, Pattern.prefix(b"TKD\x0c"), True, 0, 9)).count == 3, "no need to wait for it"


def test_node_that_does_not_answer_ends_the_fetching_of_everything_and_nothing_else() -> None:
    pool = Pool(settings())
    silent, offer = LiveNode(), offers(1)[0]
    silent.is_answering = False
    Link(pool, silent, PLACE)
    pass_time(int(questioning.ANSWER_S) + 3, pool, silent)
    [link] = peers(pool)["neighbours"]
    assert link["prefixes_left"] == 0 and link["unanswered"] == questioning.OPEN_MAX
    post(silent, offer)
    assert held(pool) == {offer.own_id()} and not parted(pool)


@pytest.mark.parametrize("who", ("ours", "theirs"))
def test_fetching_goes_on_after_a_restart_of_either_side(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few_prefixes(monkeypatch)
    pool, node = Pool(settings()), LiveNode()
    old = [*offers(20, kind=b"\x00A"), *offers(20, kind=b"\x02z"), *offers(20, kind=b"\x03\xff")]
    for one in old:
        post(node, one)
    link = Link(pool, node, PLACE)
    pass_time(20, pool, node)
    left = peers(pool)["neighbours"][0]["prefixes_left"]
    assert 400 < left < 800
    link.cut()
    (pool if who == "ours" else node).crash()
    Link(pool, node, PLACE)
    pass_time(2, pool, node)
    again = peers(pool)["neighbours"][0]["prefixes_left"]
    assert 900 < again <= 1024, "all are asked for again, from where it ended"
    pass_time(48, pool, node)
    assert held(pool) == {one.own_id() for one in old}
    assert peers(pool)["neighbours"][0]["prefixes_left"] == 0


# -- lines that have gone stale -------------------------------------------------------------------------------------


def test_node_whose_line_has_fallen_is_offered_what_was_held_back_within_a_minute() -> None:
    pool = Pool(settings(fetch=False))
    node = LiveNode(Settings(network="regtest", profile="compat", pool_bytes=4096))
    for one in offers(26, 70.0):
        post(node, one)
    Link(pool, node, PLACE)
    pass_time(2, pool, node)
    offer = offers(1, 20.0)[0]
    post(pool, offer)
    pass_time(2, pool, node)
    assert peers(pool)["neighbours"][0]["line"] > 60 and offer.own_id() not in held(node)
    node.rules._holdings.pool._limits = Pool().rules._holdings.pool._limits  # a pool of the usual size: its line falls
    pass_time(70, pool, node)
    assert peers(pool)["neighbours"][0]["line"] == 2.0 and offer.own_id() in held(node)


def test_node_is_told_that_our_line_has_fallen_and_then_announces_what_it_would_have_held_back() -> None:
    pool = Pool(Settings(network="regtest", connect=(PLACE,), pool_bytes=4096))
    node = LiveNode()
    Link(pool, node, PLACE)
    for one in offers(27, 70.0):
        post(node, one)  # each is requested with our line, which is high in the end
    pass_time(2, pool, node)
    assert peers(node)["neighbours"][0]["line"] > 60
    pool.rules._holdings.pool._limits = Pool().rules._holdings.pool._limits
    pass_time(11, pool, node)
    assert peers(node)["neighbours"][0]["line"] == 2.0
    offer = offers(1, 3.0, born=int(node.now.wall_s))[0]
    post(node, offer)
    assert offer.own_id() in held(pool)


def test_message_as_the_node_itself_makes_it_crosses_both_ways() -> None:
    pool, node = Pool(settings(fetch=False)), LiveNode()
    Link(pool, node, PLACE)
    pass_time(1, pool, node)
    for one in (pool, node):
        message = posted(b"TKD\x0cmade by %s" % type(one).__name__.encode(), 2.0096, int(one.now.wall_s))
        assert message.initial_priority < 2.02 and post(one, message) == 0
        assert message.own_id() in held(pool) & held(node)
