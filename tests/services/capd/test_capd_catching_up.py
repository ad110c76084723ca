"""What was posted while no neighbour was there, or was below a line, reaches neighbours that know none of our commands
later; and what is said of it meanwhile."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from samples.capd import BORN, posted
from samples.capd_fabric import Fabric
from samples.capd_net import Client, Pool, greeted, peers, post

from router.service import contract as c
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage, shown_id
from services.capd.core.nexa import announcing, coverage
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa.limits import NexaLimits
from services.capd.settings import Settings

FLOOR = n.PoolLines(1.0, 2.0, 2.0)
FAR = "203.0.113.7:5000"
STRICT, COMPAT = Settings(network="regtest"), Settings(network="regtest", profile="compat")
_NUMBERS = count()


def offers(amount: int, priority: float = 4.0, born: int = BORN) -> list[CapdMessage]:
    return [posted(b"offer %d" % next(_NUMBERS), priority, born) for _ in range(amount)]


def why(pool: Any, message: CapdMessage) -> dict[str, Any]:
    deeds = pool.hear(c.Asked(1, "why", shown_id(message.own_id())))
    [answer] = [one for one in deeds if isinstance(one, c.Answer)]
    found: dict[str, Any] = answer.value
    return found


def ids_in(messages: list[Any]) -> set[bytes]:
    return {own_id for one in messages if isinstance(one, n.Inv) for own_id in one.ids}


@pytest.mark.parametrize("settings", (STRICT, COMPAT), ids=("strict", "compat"))
def test_what_was_posted_without_a_link_is_announced_to_a_nexa_node_that_connects(settings: Settings) -> None:
    pool = Pool(settings)
    offer, weak, local = *offers(1), *offers(1, 2.5), *offers(1, 1.5)
    for one in (offer, weak, local):
        assert post(pool, one) == 0
    assert (why(pool, offer)["state"], why(pool, offer)["announced_to"], why(pool, local)["state"]) == (
        "waiting", 0, "local",
    )  # fmt: skip
    node = greeted(pool)  # it ignores capdgetheld
    pool.pass_time(1)
    assert node.take() == [], "its line is not known yet"
    assert node.say(n.PoolLines(1.0, 3.0, 9.0)) == []
    pool.pass_time(1)
    assert node.take() == [n.Inv((offer.own_id(),))]
    assert (why(pool, offer)["state"], why(pool, offer)["announced_to"]) == ("waiting", 1)
    assert node.say(n.GetMsg(3.0, (offer.own_id(),))) == [n.Msg((offer,))]
    assert (why(pool, offer)["state"], why(pool, offer)["taken_by"]) == ("relayed", 1)
    pool.pass_time(30)
    assert node.take() == [], "once"
    assert node.say(n.PoolLines(1.0, 2.0, 9.0)) == []
    pool.pass_time(1)
    assert ids_in(node.take()) == {weak.own_id()}, "what was below its line, when the line has fallen"


def test_node_that_tells_no_line_is_announced_what_is_at_or_above_the_floor() -> None:
    pool = Pool()
    offer, local = *offers(1), *offers(1, 1.5)
    post(pool, offer), post(pool, local)
    node = greeted(pool)
    pool.pass_time(announcing.LINES_WITHIN_S)
    assert node.take() == [n.Inv((offer.own_id(),))]


@pytest.mark.parametrize("each", [160, pytest.param(700, marks=pytest.mark.long)])
def test_what_is_posted_before_during_and_after_a_link_is_announced_within_seconds(each: int) -> None:
    pool = Pool()
    before, during, after = (offers(each) for _ in range(3))
    for one in before:
        post(pool, one)
    node = greeted(pool)
    found = ids_in(node.say(FLOOR))
    for one in during:
        post(pool, one)
    for _ in range(3):
        pool.pass_time(1)
    found |= ids_in(node.take())
    assert found == {one.own_id() for one in before + during}
    pool.hear(c.Came("nexa", node.peer, b""))
    for one in after:
        post(pool, one)
    again = greeted(pool)
    again.say(FLOOR)
    pool.pass_time(1)
    assert ids_in(again.take()) >= {one.own_id() for one in after}


def test_what_is_held_back_while_a_neighbour_does_not_read_is_announced_when_it_reads() -> None:
    pool = Pool(limits=NexaLimits(announce_bytes=3_000, ping_bytes=2_000))
    node = greeted(pool)
    node.say(FLOOR)
    pool.pass_time(1)
    node.is_reading = False
    messages = offers(200)
    for one in messages:
        post(pool, one)
    [link] = peers(pool)["neighbours"]
    assert link["held_back"] > 100 and why(pool, messages[-1])["announced_to"] == 0
    node.is_reading = True
    unread, node.unread = bytes(node.unread), bytearray()
    node.written(unread)
    for _ in range(60):
        pool.pass_time(1)
    assert ids_in(node.take()) == {one.own_id() for one in messages}


def test_line_that_changes_each_second_costs_a_pass_in_ten_seconds_and_disturbs_nobody() -> None:
    pool = Pool()
    liar, honest = greeted(pool), greeted(pool, FAR, 5)
    honest.say(FLOOR)
    messages = offers(50, 9.0)
    for one in messages:
        post(pool, one)
    honest.take(), liar.take()
    told = 0
    for second in range(60):
        liar.say(n.PoolLines(0.0, float("nan") if second % 3 else 1e300, 0.0))
        post(pool, *offers(1, 9.0))
        liar.say(n.PoolLines(0.0, -1e300, 0.0))
        pool.pass_time(1)
        told += sum(len(one.ids) for one in liar.take() if isinstance(one, n.Inv))
    assert told <= (60 / coverage.PASS_S + 1) * 110
    assert not liar.is_closed and len(ids_in(honest.take())) == 60
    assert len(ids_in(honest.say(n.PoolLines(1.0, 2.0, 2.0)))) == 0


def test_a_pass_goes_page_by_page_and_is_bounded_in_time() -> None:
    line = coverage.Coverage()
    line.greeted(1 << 40)
    assert line.is_due(2.0, 0.0)
    pages = 0
    while line.may_announce(0.0):
        pages += 1
        line.went_on(pages)
    assert pages == coverage.IDS_BURST / coverage.PAGE_IDS and not line.may_announce(0.5) and line.may_announce(2.0)
    line.hold_back(7.0)
    line.went_on(None)
    assert 7.0 < line.covered < 7.1, "what was held back meanwhile is announced by the next pass"
    assert not line.is_due(2.0, 1.0) and line.is_due(2.0, coverage.PASS_S)


def test_line_of_a_neighbour_is_asked_for_each_minute_and_its_fall_tells_ours() -> None:
    pool = Pool(Settings(network="regtest", pool_bytes=4096))
    node = greeted(pool)
    for one in offers(26, 70.0):
        post(pool, one)
    node.take()
    [told] = node.say(n.GetInfo())
    assert told.relay > 60
    pool.pass_time(9)
    assert node.take() == [], "at most once in ten seconds"
    lines, questions = [told.relay], 0
    for _ in range(650):
        pool.pass_time(1)
        for one in node.take():
            lines += [one.relay] if isinstance(one, n.PoolLines) else []
            questions += isinstance(one, n.GetInfo)
    assert lines == sorted(lines, reverse=True) and lines[-1] == 2.0 and 50 <= len(lines) <= 67
    assert questions == 10
    rising = Pool()
    other = greeted(rising)
    rising.pass_time(30)
    assert other.take() == [], "a line that does not fall is not told"


def test_pool_of_ours_that_lists_what_is_held_is_not_announced_it_as_well() -> None:
    pool = Pool()
    held = offers(3)
    for one in held:
        post(pool, one)
    other = greeted(pool)
    [listed, _] = [*other.say(own.GetHeld(0)), None]
    assert set(listed.ids) == {one.own_id() for one in held}
    other.say(FLOOR)
    pool.pass_time(1)
    assert other.take() == []


def test_who_has_a_message_is_told_until_the_pool_starts_again_and_of_what_others_brought() -> None:
    pool = Pool()
    node = greeted(pool)
    brought, mine = offers(2)
    node.say(n.Msg((brought,)))
    post(pool, mine)
    assert why(pool, brought)["state"] == "relayed" and why(pool, brought)["announced_to"] is None
    node.say(n.Inv((mine.own_id(),)))
    assert why(pool, mine)["state"] == "relayed", "it names the message itself"
    pool.crash()
    assert why(pool, mine)["state"] == "waiting" and why(pool, brought)["state"] == "waiting"
    other = Client(pool, FAR, 7)
    other.say(n.Inv((mine.own_id(),)))
    assert (why(pool, mine)["state"], why(pool, mine)["taken_by"]) == ("relayed", 1)


def test_peer_over_routers_that_takes_a_message_counts() -> None:
    fabric = Fabric({1: (2,), 2: (1,)})
    fabric.pass_time(1)
    fabric.away = {2}
    [offer] = offers(1)
    assert fabric.pools[1].ask(m.Post(1, offer.encoded())).result == 0
    fabric.carry()
    assert why(fabric.pools[1], offer)["state"] == "waiting"
    fabric.away = set()
    for _ in range(70):
        fabric.pass_time(1)
    assert why(fabric.pools[1], offer)["state"] == "relayed" and why(fabric.pools[2], offer)["state"] == "relayed"
