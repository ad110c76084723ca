"""Pools that are peers over routers: which messages cross and which do not, what an absence costs, and refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from samples.capd import BORN, posted
from samples.capd_fabric import Fabric, address
from samples.capd_host import ASKERS, Host

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text
from router.service import contract as c
from services.capd import reasons
from services.capd.core import between_pools as b
from services.capd.core import messages as m
from services.capd.core import peer, pools
from services.capd.core.holdings import BYTES_MAX
from services.capd.core.limits import Standing
from services.capd.core.message import CapdMessage, rescind_hash_of
from services.capd.core.nexa.limits import QUERY_UNITS, SECRET_UNITS
from services.capd.core.pattern import Pattern
from services.capd.core.peer import CATCH_UP_S, PRESENT_S, TAG
from services.capd.core.pool import Rejected
from services.capd.core.pools import SECRETS_AGAIN_S, WANT_S
from services.capd.settings import Settings

OFFER = posted(b"TKD\x0can offer", 30.0)
SECRET = b"s" * 32
RESCINDABLE = posted(b"TKD\x0canother", 30.0, secret_hash=rescind_hash_of(SECRET))
ID = MessageId(bytes(32))
TRIANGLE = {1: (2, 3), 2: (1, 3), 3: (1, 2)}


def post(fabric: Fabric, number: int, message: CapdMessage) -> None:
    assert fabric.pools[number].ask(m.Post(1, message.encoded())).result == 0
    fabric.carry()


def standing(pool: Host, message: CapdMessage) -> Standing | None:
    found = pool.ask(m.Get(1, message.own_id())).messages
    return found[0][0] if found else None


def everywhere(fabric: Fabric, message: CapdMessage) -> list[Standing | None]:
    return [standing(pool, message) for pool in fabric.pools.values()]


def test_pools_bring_each_message_to_each_other_once() -> None:
    fabric = Fabric(TRIANGLE)
    fabric.pools[3].ask(m.Watch(1, Pattern.prefix(b"TKD"), 1000))
    fabric.between()
    post(fabric, 1, OFFER)
    assert everywhere(fabric, OFFER) == [Standing.RELAYED] * 3
    assert fabric.pools[3].matches == [(ASKERS[0], OFFER.encoded(), 600)], "a standing query hears of it, once"
    assert Counter(fabric.between()) == {"Held": 4, "Want": 2, "Bring": 2}, "each is brought it once"
    [accepted] = fabric.pools[2].events("capd_accepted")
    assert accepted.fields["by"] == address(1).hex()
    assert {one.fields["to"] for one in fabric.pools[1].events("capd_sent")} == {address(2).hex(), address(3).hex()}


def test_pools_do_not_announce_local_expired_or_rescinded_messages() -> None:
    fabric = Fabric({1: (2,), 2: (1,)})
    fabric.between()
    local, short = posted(b"local", 1.5), posted(b"short", 30.0, expiration=0)
    for message in (local, short, RESCINDABLE):
        fabric.away = {2} if message is RESCINDABLE else set()
        post(fabric, 1, message)
    fabric.pools[1].ask(m.Rescind(2, SECRET))
    fabric.carry()
    fabric.away = set()
    fabric.pools[2].crash()  # after it, the pool asks for all that is held
    fabric.carry()
    assert [standing(fabric.pools[2], one) for one in (local, short, RESCINDABLE)] == [None] * 3
    assert "Want" not in fabric.between()


def test_secret_reaches_a_peer_that_was_away_even_after_a_restart() -> None:
    fabric = Fabric({1: (2,), 2: (1, 3), 3: (2,)})
    post(fabric, 1, RESCINDABLE)
    assert everywhere(fabric, RESCINDABLE) == [Standing.RELAYED] * 3, "from one to the next"
    fabric.away = {3}
    fabric.pools[1].ask(m.Rescind(2, SECRET))
    fabric.carry()
    assert everywhere(fabric, RESCINDABLE) == [Standing.RESCINDED, Standing.RESCINDED, Standing.RELAYED]
    fabric.pools[2].crash()
    fabric.away = set()
    fabric.pass_time(CATCH_UP_S)
    assert everywhere(fabric, RESCINDABLE) == [Standing.RESCINDED] * 3
    [note] = fabric.pools[3].events("capd_rescinded")
    assert (note.reason, note.fields["by"]) == (reasons.RESCINDED, address(2).hex())


@pytest.mark.parametrize("absence_s", (CATCH_UP_S, PRESENT_S + 1))
def test_catch_up_after_an_absence_works_in_both_directions(absence_s: float) -> None:
    fabric = Fabric({1: (2,), 2: (1,)})
    fabric.away = {2}
    post(fabric, 1, OFFER)
    post(fabric, 2, RESCINDABLE)
    fabric.pass_time(absence_s)
    assert everywhere(fabric, OFFER)[1] is None is everywhere(fabric, RESCINDABLE)[0]
    fabric.away = set()
    fabric.pass_time(CATCH_UP_S)
    assert everywhere(fabric, OFFER) == everywhere(fabric, RESCINDABLE) == [Standing.RELAYED] * 2


def test_catch_up_of_many_messages_goes_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(b, "HELD_IDS_MAX", 24)
    monkeypatch.setattr(b, "BRING_MESSAGES_MAX", 8)
    monkeypatch.setattr(b, "BRING_BYTES", 2_500)
    fabric = Fabric({1: (2,), 2: (1,)})
    fabric.away = {2}
    large = [posted(bytes([number]) * 1_000, 2.1) for number in range(5)]
    small = [posted(b"%d" % number, 2.5) for number in range(60)]
    for message in (*large, *small):
        fabric.pools[1].ask(m.Post(1, message.encoded()))
    fabric.carry()
    fabric.away = set()
    fabric.pools[2].crash()
    fabric.carry()
    assert fabric.pools[2].ask(m.Info(1)).count == len(large) + len(small)
    said = Counter(fabric.between())
    assert said["CatchUp"] >= 3 and said["Bring"] == said["Want"] >= 10


def test_wanted_message_that_does_not_come_is_asked_for_elsewhere() -> None:
    fabric = Fabric({1: (2,), 2: (1, 3), 3: (2,)})
    taker = fabric.pools[2]
    # Pool 3 lists the offer and does not bring it; then pool 1 gets it as well.
    taker.say(m.encode_message(b.Held((OFFER.own_id(),))), address(3))
    fabric.away = {3}
    post(fabric, 1, OFFER)
    assert standing(taker, OFFER) is None, "it is asked for already"
    fabric.pass_time(WANT_S)
    fabric.pass_time(CATCH_UP_S)
    assert standing(taker, OFFER) is Standing.RELAYED


def test_peers_may_bring_only_what_neighbours_may() -> None:
    fabric = Fabric({1: (2,), 2: (1,)})
    taker = fabric.pools[2]
    cases = (
        (OFFER.encoded()[:-1], reasons.MALFORMED),
        (posted(b"local", 1.5).encoded(), reasons.BELOW_LINE),
        (posted(b"tomorrow", 9.0, BORN + 99).encoded(), reasons.FUTURE),
        (CapdMessage(b"no work", BORN, 0x1E00FFFF, b"").encoded(), reasons.BAD_WORK),
    )
    for wire, _ in cases:
        taker.say(m.encode_message(b.Bring(9, 0, (wire,))), address(1))
    assert [one.reason for one in taker.events("capd_turned_away")] == [reason for _, reason in cases]
    assert taker.ask(m.Info(1)).count == 0


def test_holdings_reject_a_message_too_large_for_a_unicast_even_under_compat() -> None:
    host = Host(Settings(profile="compat"))
    large = CapdMessage(bytes(BYTES_MAX), BORN, 0x1E00FFFF, b"n")
    verdict, deeds = host.rules._holdings.add(large, large.own_id(), BORN)
    assert isinstance(verdict, Rejected) and verdict.reason is reasons.TOO_LARGE and not deeds
    fitting = CapdMessage(bytes(BYTES_MAX - 1), BORN, 0x1E00FFFF, b"n", 0xFFFF, bytes(20))
    verdict, _ = host.rules._holdings.add(fitting, fitting.own_id(), BORN)
    assert isinstance(verdict, Rejected) and verdict.reason is reasons.BAD_WORK
    m.encode_message(m.Match(Standing.LOCAL, fitting.encoded()))


def test_pools_refuse_strangers_and_bound_the_rate_of_each_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "UNITS_BURST", 10 * QUERY_UNITS)
    monkeypatch.setattr(peer, "UNITS_PER_S", QUERY_UNITS)
    fabric = Fabric({1: (2,), 2: (), 3: (2,)})
    pool = fabric.pools[2]
    for said in (b.CatchUp(0), b.Held(()), b.Want(1, ()), b.Bring(1, 0, (OFFER.encoded(),)), b.Secrets((SECRET,))):
        [refused] = pool.say(m.encode_message(said), address(3))
        assert isinstance(refused, c.Refuse) and refused.reason is reasons.NOT_A_PEER
    fabric = Fabric({1: (), 2: (1,)})
    pool, asked = fabric.pools[2], m.encode_message(b.CatchUp(0))
    for _ in range(10):
        assert all(isinstance(one, c.Send) for one in pool.say(asked, address(1)))
    [refused] = pool.say(asked, address(1))
    assert isinstance(refused, c.Refuse) and refused.reason is reasons.TOO_FAST and refused.reason.later
    pool.pass_time(1.0)
    assert isinstance(pool.say(asked, address(1))[0], c.Send), "its time has come"


def test_peer_is_shown_once_and_named_once() -> None:
    fabric = Fabric({1: (2, 1), 2: (1,)})
    post(fabric, 1, OFFER)
    [answer] = [one for one in fabric.pools[1].hear(c.Asked(1, "peers")) if isinstance(one, c.Answer)]
    [shown] = (answer.value["pools"],)
    assert [(one["address"], one["present"], one["sent"]) for one in shown] == [(key_text("addr", address(2)), True, 1)]
    two = key_text("addr", address(2))
    for peers, said in (
        ((two, two), "named twice"),
        (("addr1nonsense",), "router capd address"),
        ((two,) * 17, "at most 16"),
    ):
        assert any(name == "peers" and said in text for name, text in Settings(peers=peers).problems()), said
    settings = Settings(peers=(two,))
    [text] = settings.warnings("capd", is_public=False, has_neighbours=False)
    assert "node.services_public" in text and "router peer add" in text
    for is_public, has_neighbours in ((True, False), (False, True)):
        assert not list(settings.warnings("capd", is_public=is_public, has_neighbours=has_neighbours))


def told_secrets(fabric: Fabric) -> list[bytes]:
    """Return the secrets that were carried since the last call."""
    found = [one for _, _, said in fabric.carried if isinstance(said, b.Secrets) for one in said.secrets]
    fabric.carried.clear()
    return found


def test_peer_that_catches_up_gets_the_latest_secrets_at_once_and_the_others_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pools, "SECRETS_FIRST", 4)
    monkeypatch.setattr(pools, "SECRETS_PER_S", 2)
    fabric = Fabric({1: (2,), 2: (1,)})
    fabric.away = {2}
    secrets = [bytes([number]) for number in range(9)]
    for number, secret in enumerate(secrets):  # those of later messages matter for longer
        message = posted(b"offer", 30.0, BORN - 100 + number, secret_hash=rescind_hash_of(secret))
        assert fabric.pools[1].ask(m.Post(1, message.encoded())).result == 0
        assert fabric.pools[1].ask(m.Rescind(2, secret)).ids
    fabric.pass_time(SECRETS_AGAIN_S)
    fabric.carried.clear()
    fabric.away = set()
    fabric.pools[2].crash()
    fabric.carry()
    assert told_secrets(fabric) == secrets[:4:-1]
    for expected in ([secrets[4], secrets[3]], [secrets[2], secrets[1]], [secrets[0]], []):
        fabric.pass_time(1)
        assert told_secrets(fabric) == expected
        fabric.pools[1].say(m.encode_message(b.CatchUp(0)), address(2))
        assert told_secrets(fabric) == [], "it is not begun anew while that goes on"
    fabric.pass_time(SECRETS_AGAIN_S)
    assert len(told_secrets(fabric)) >= 4, "it is told once more afterwards"


def test_secrets_cost_little_if_known_or_if_they_end_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "UNITS_BURST", 1_000.0)
    monkeypatch.setattr(peer, "UNITS_PER_S", 0.001)
    fabric = Fabric({1: (2,), 2: (1,)})
    post(fabric, 1, RESCINDABLE)
    pool = fabric.pools[2]

    def is_taken(secret: bytes) -> bool:
        return not any(
            isinstance(one, c.Refuse) for one in pool.say(m.encode_message(b.Secrets((secret,))), address(1))
        )

    assert all(is_taken(SECRET) for _ in range(300))
    assert standing(pool, RESCINDABLE) is Standing.RESCINDED
    assert 14 <= sum(is_taken(b"of nothing %d" % number) for number in range(30)) <= 700 // SECRET_UNITS


@pytest.mark.parametrize(
    ("passed", "said"),
    [
        (lambda tag: c.HopOutcome(tag, ID, address(2), "refused", reasons.NOT_A_PEER), "it does not name this pool"),
        (lambda tag: c.Sent(tag, ID, Reason.NO_ROUTE), "no-route: no route leads there"),
        (lambda tag: c.HopOutcome(tag, ID, address(2), "refused", Reason.NOT_AUTHORISED), "node.services_public"),
        (lambda tag: c.HopOutcome(tag, ID, address(2), "expired", Reason.TTL_EXPIRED), Reason.TTL_EXPIRED.word),
        (lambda tag: c.HopOutcome(tag, ID, address(2), "delivered"), "nothing has come from it yet"),
    ],
)
def test_peers_answer_says_why_a_pool_is_not_present(passed: Callable[[str], c.Heard], said: str) -> None:
    fabric = Fabric({1: (2,), 2: ()})
    asker = fabric.pools[1]
    asker.hear(passed(TAG + address(2).hex()))
    [shown] = peers_of(asker)
    assert not shown["present"] and said in shown["problem"]
    asker.say(m.encode_message(b.CatchUp(0)), address(2))
    [shown] = peers_of(asker)
    assert shown["present"] and shown["problem"] == ""
    asker.pass_time(PRESENT_S + 1)
    assert peers_of(asker)[0]["problem"].startswith("nothing has come from it for 151 s")


def sent_to(deeds: list[c.Deed], number: int, kind: type[Any]) -> list[c.Send]:
    """Return the messages of this type to a pool."""
    return [
        one for one in deeds
        if isinstance(one, c.Send) and one.to == address(number) and isinstance(m.decode_message(one.body), kind)
    ]  # fmt: skip


def test_catch_up_without_a_route_is_sent_again_after_ten_seconds() -> None:
    pool = Fabric({1: (2,), 2: ()}).pools[1]
    pool.hear(c.Sent(TAG + address(2).hex(), ID, Reason.NO_ROUTE))
    said = "no-route: no route leads there; connect both nodes: `router peer add` of the other's link"
    assert peers_of(pool)[0]["problem"] == f"{said}; tried again in 10 s"
    assert not sent_to(pool.pass_time(9), 2, b.CatchUp) and len(sent_to(pool.pass_time(1), 2, b.CatchUp)) == 1


def test_secret_without_a_route_is_sent_again_after_ten_seconds_until_it_gets_through() -> None:
    fabric = Fabric({1: (2,), 2: (1,)})
    post(fabric, 1, RESCINDABLE)
    pool = fabric.pools[1]
    assert peers_of(pool)[0]["problem"] == ""
    [first] = sent_to(pool.say(m.encode_message(m.Rescind(2, SECRET))), 2, b.Secrets)
    for tag in (first.tag, f"{TAG}{address(2).hex()} 99"):  # the second is of an unknown message
        pool.hear(c.Sent(tag, ID, Reason.NO_ROUTE))
    said = "1 secret did not get through, no-route: no route leads there; connect both nodes: `router peer add` of the"
    assert peers_of(pool)[0]["problem"] == f"{said} other's link; tried again in 10 s"
    assert not sent_to(pool.pass_time(9), 2, b.Secrets)
    [again] = sent_to(pool.pass_time(1), 2, b.Secrets)
    assert m.decode_message(again.body) == b.Secrets((SECRET,)) and again.tag != first.tag
    assert peers_of(pool)[0]["problem"] == "", "it is under way"
    pool.hear(c.HopOutcome(again.tag, ID, address(2), "refused", Reason.NO_ROUTE))
    assert "1 secret did not get through" in peers_of(pool)[0]["problem"]
    [third] = sent_to(pool.pass_time(10), 2, b.Secrets)
    pool.hear(c.Sent(third.tag, ID))
    pool.hear(c.HopOutcome(third.tag, ID, address(2), "delivered"))
    assert peers_of(pool)[0]["problem"] == "" and not sent_to(pool.pass_time(20), 2, b.Secrets)


def peers_of(pool: Host) -> list[dict[str, Any]]:
    [answer] = [one for one in pool.hear(c.Asked(1, "peers")) if isinstance(one, c.Answer)]
    found: list[dict[str, Any]] = answer.value["pools"]
    return found
