"""The limits on one neighbour of a pool, and on one address: beyond them it is closed, and others are undisturbed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from samples.capd import BORN, posted
from samples.capd_net import REGTEST, Client, Pool, greeted, parted, peers, post

from router.service import contract as c
from services.capd import reasons
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa import serving
from services.capd.core.nexa.addresses import BAN_S
from services.capd.core.nexa.envelope import Packet, Unpacker
from services.capd.core.nexa.limits import QUERY_UNITS, NexaLimits
from services.capd.core.nexa.neighbours import DIALLED, DOOR
from services.capd.core.nexa.packets import Ping, Pong, packet_of
from services.capd.core.pattern import Pattern
from services.capd.settings import Settings

OFFER = posted(b"TKD\x0coffer of something", 4.0)
SECRET = b"s" * 32
LIMITS = NexaLimits()
FAR = "203.0.113.7:5000"
STRICT, COMPAT = Settings(network="regtest"), Settings(network="regtest", profile="compat")


def test_ban_line_costs_points_below_it_and_a_hundred_end_the_connection() -> None:
    pool = Pool()
    client, other = greeted(pool, FAR), greeted(pool, "203.0.113.8:5000", 5)
    faded = [posted(b"%d" % number, 4.0, BORN - 590) for number in range(101)]
    aged = posted(b"a minute old", 3.0, BORN - 240)  # 1.8 now, 2.1 a minute ago
    assert client.say(n.Msg((aged,))) == [] and peers(pool)["neighbours"][0]["points"] == 0, "grace"
    [note] = pool.events("capd_turned_away")
    assert (note.reason, note.fields["by"]) == (reasons.BELOW_LINE, FAR)
    client.say(n.Msg(tuple(faded[:99])))
    assert not client.is_closed and peers(pool)["neighbours"][0]["points"] == 99
    assert client.say(n.Msg(tuple(faded[99:]))) == [] and client.is_closed
    assert parted(pool) == [(reasons.MISBEHAVED, "a message of priority 0.06667")]
    assert Client(pool, "203.0.113.7:6000").is_closed and parted(pool)[-1] == (reasons.BANNED, "")
    assert other.say(Ping(1)) == [Pong(1)] and not other.is_closed, "others are undisturbed"
    pool.pass_time(BAN_S)
    assert not Client(pool, FAR).is_closed


def test_loopback_is_closed_and_not_banned() -> None:
    pool = Pool()
    client = greeted(pool)
    client.say(n.Msg(tuple(posted(b"%d" % number, 4.0, BORN - 590) for number in range(100))))
    assert client.is_closed and not Client(pool).is_closed


def test_ban_line_is_half_of_the_line_sent_and_a_higher_one_counts_after_a_minute() -> None:
    pool = Pool(Settings(network="regtest", pool_bytes=4096))
    for number in range(26):
        post(pool, posted(b"%d" % number, 20.0 + number))
    client = greeted(pool)
    weak, strong = posted(b"weak", 9.0), posted(b"weaker than some", 18.0)
    [info] = client.say(n.GetInfo())
    assert 30 < info.relay < 35
    client.say(n.Msg((weak,)))
    assert peers(pool)["neighbours"][0]["points"] == 0 and pool.events("capd_turned_away"), "the old line holds"
    pool.pass_time(60)
    client.say(n.Msg((weak, strong)))
    assert peers(pool)["neighbours"][0]["points"] == 1, "below half of what was told, and not below that"


def test_ban_line_is_the_relay_floor_under_compat() -> None:
    pool = Pool(COMPAT)
    client = greeted(pool)
    client.say(n.Msg((posted(b"too old", 3.0, BORN - 240), posted(b"tomorrow", 3.0, BORN + 1), OFFER)))
    assert peers(pool)["neighbours"][0]["points"] == 2
    assert [one.reason for one in pool.events("capd_turned_away")] == [reasons.BELOW_LINE, reasons.FUTURE]


def test_list_of_too_many_ids_costs_points_and_is_ignored() -> None:
    pool = Pool()
    client = greeted(pool)
    many = tuple(number.to_bytes(32, "little") for number in range(20_001))
    assert client.say(n.Inv(many), n.GetMsg(2.0, many[:10_001])) == []
    assert peers(pool)["neighbours"][0]["points"] == 40
    asked = client.say(n.Inv(many[:20_000]))
    assert [len(one.ids) for one in asked] == [1000, 1000], "so many are asked for at once"
    assert asked[0].ids + asked[1].ids == many[:2000]
    pool.pass_time(29)
    assert client.take() == []
    pool.pass_time(1)
    assert [one.ids for one in client.take()] == [many[2000:3000], many[3000:4000]], "what does not come is given up"


ABUSE: list[tuple[str, list[Any], str]] = [
    ("standing queries", [n.PrefixQuery(1, 0x81, 0, 0, b"%04d" % one) for one in range(257)], "more than 256 standing"),
    (
        "standing queries with a mask",
        [
            own.MaskedQuery(1, 0x81, 0, 0, Pattern.of(b"%d" % (one % 10) * 2, b"\xff" + bytes((one,))))
            for one in range(17)
        ],
        "more than 16 standing queries with a mask",
    ),
    ("queries", [n.PrefixQuery(1, 1, 0, 0, b"%04d" % one) for one in range(1001)], "more than 500 units a second"),
    ("what cannot be read", [Packet("capdq", b"x")] * 201, "more than 500 units a second"),
    ("what is known", [n.Msg((OFFER,) * 5000)] * 4, "more than 500 units a second"),
    ("ids", [n.Inv(tuple(bytes([at]) * 32 for at in range(250)) * 80)] * 9, "more than 500 units a second"),
    ("pings", [Ping(1)] * 20_001, "more than 500 units a second"),
    ("secrets", [own.RescindSecrets((b"%d" % one,) * 16) for one in range(130)], "more than 500 units a second"),
    ("answers that nobody asked for", [n.IdsReply(1, 1, (bytes(32),) * 20_000)] * 9, "more than 500 units a second"),
]


@pytest.mark.parametrize(("name", "said", "cause"), ABUSE, ids=[one[0] for one in ABUSE])
def test_neighbour_that_asks_for_too_much_is_closed_and_others_are_undisturbed(
    name: str, said: list[Any], cause: str
) -> None:
    pool = Pool()
    client, other = greeted(pool, FAR), greeted(pool, "203.0.113.8:1", 5)
    post(pool, OFFER)
    client.is_reading = False
    data = b"".join((one if isinstance(one, Packet) else packet_of(one)).encoded(REGTEST) for one in said)
    for at in range(0, len(data), 65_536):
        client.send(data[at : at + 65_536])
    [(reason, detail)] = parted(pool)
    assert reason is reasons.ASKS_TOO_MUCH and cause in str(detail) and client.is_closed
    other.take()
    assert other.say(n.PrefixQuery(1, n.IDS, 0, 9, b"TK")) == [n.IdsReply(1, 1, (OFFER.own_id(),))]


def test_address_has_one_allowance_and_one_count_of_standing_queries_for_all_connections() -> None:
    pool = Pool()
    clients = [greeted(pool, f"203.0.113.7:{port}", port) for port in range(100, 105)]
    queries = [n.PrefixQuery(1, 0x81, 0, 0, b"%04d" % one) for one in range(200)]
    for client in clients[:2]:
        client.say(*queries)
    clients[2].say(*queries)
    assert [one.is_closed for one in clients[:3]] == [False, False, True]
    assert parted(pool) == [(reasons.ASKS_TOO_MUCH, "more than 512 standing queries of its address")]
    pings = [Ping(1)] * 15_000
    for client in clients[3:]:
        client.say(*pings)
    assert clients[4].is_closed and "its address asks for more than 1000 units" in str(parted(pool)[-1][1])


def test_connections_are_limited_by_address_and_in_all() -> None:
    pool = Pool()
    clients = [Client(pool, f"203.0.113.7:{port}", port) for port in range(1, 9)]
    assert not any(one.is_closed for one in clients)
    assert Client(pool, "203.0.113.7:9").is_closed and Client(pool, "[::ffff:203.0.113.7]:9").is_closed
    assert parted(pool)[-1] == (reasons.TOO_MANY, "8 of one address")
    pool.hear(c.Came(DOOR, clients[0].peer, b""))
    assert not Client(pool, "203.0.113.7:10").is_closed, "one has gone"
    for at in range(8):
        assert not Client(pool, f"[2001:db8:1:1::{at}]:1").is_closed
    assert Client(pool, "[2001:db8:1:1:ffff::]:1").is_closed, "one machine may have all of a /64"
    for host in range(6):
        for port in range(8):
            assert not Client(pool, f"198.51.100.{host}:{port + 1}", 1000 + port).is_closed
    assert Client(pool, "198.51.100.99:1").is_closed, "64 in all"
    assert len(peers(pool)["neighbours"]) == 64 and peers(pool)["refused"] == {"capd:too-many": 4}


def test_connections_without_a_greeting_are_at_most_half() -> None:
    pool = Pool()
    for at in range(32):
        pool.open(Client.__new__(Client), f"198.51.100.{at}:1")
    assert Client(pool, FAR).is_closed and parted(pool) == [(reasons.TOO_MANY, "32 without a greeting")]


def test_neighbour_that_never_reads_gets_a_window_and_is_closed_when_no_ping_is_answered() -> None:
    limits = NexaLimits(unread_bytes=20_000, announce_bytes=10_000, ping_bytes=5_000)
    pool = Pool(limits=limits)
    stored = [posted(bytes(99) + bytes((number,)), 4.0) for number in range(60)]
    for one in stored:
        post(pool, one)
    client, other = greeted(pool, FAR), greeted(pool, "203.0.113.8:1", 5)
    client.is_reading = False
    wanted = [n.GetMsg(2.0, tuple(one.own_id() for one in stored))] * 9
    client.say(*wanted)
    written = len(client.unread)
    assert 20_000 <= written < 20_000 + 60 * 140
    post(pool, OFFER)
    assert len(client.unread) == written, "nothing is announced to who does not read"
    assert other.take() == [n.Inv((OFFER.own_id(),))]
    pool.pass_time(limits.pong_s - 1)
    assert not client.is_closed
    # A client that reads at last gets the rest.
    client.is_reading, data = True, bytes(client.unread)
    client.written(data)
    found = [one for said in client.take() if isinstance(said, n.Msg) for one in said.messages]
    assert found == stored * 9
    client.is_reading = False
    client.say(*wanted)
    pool.pass_time(limits.pong_s)
    assert client.is_closed and not other.is_closed
    assert parted(pool)[-1][0] is reasons.DOES_NOT_READ and "no answer to a ping within 120 s" in str(parted(pool)[-1])
    # The requests that wait are bounded, too.
    client = greeted(pool, FAR)
    client.is_reading = False
    client.say(*wanted * 40)
    assert parted(pool)[-1][0] is reasons.ASKS_TOO_MUCH and "20000 ids, wait for it to read" in str(parted(pool)[-1])


def test_silent_neighbour_is_pinged_and_a_slow_one_closed() -> None:
    pool = Pool()
    client = greeted(pool)
    client.is_reading = False
    pool.pass_time(LIMITS.ping_s)
    assert [one.command for one in Unpacker(REGTEST).feed(bytes(client.unread))] == ["capdgetinfo", "ping"]
    client.is_reading = True
    client.written(bytes(client.unread))
    pool.pass_time(LIMITS.pong_s)
    assert not client.is_closed, "it has answered"
    silent = Client.__new__(Client)
    silent.is_closed, silent.is_reading, silent.unread = False, False, bytearray()
    pool.open(silent, FAR)
    pool.pass_time(10)
    assert silent.is_closed and parted(pool) == [(reasons.TOO_SLOW, "silent for 10 s")]
    for one in Packet("capdinfo", bytes(24)).encoded(REGTEST)[:40]:
        client.send(bytes([one]))
        pool.pass_time(1)
    pool.pass_time(120)
    assert client.is_closed and parted(pool)[-1] == (reasons.TOO_SLOW, "a packet is not whole after 120 s")


def test_incomplete_packets_are_bounded_in_all() -> None:
    pool = Pool(limits=NexaLimits(partial_bytes=1_000_000))
    begun = Packet("capdmsg", bytes(4_000_000)).encoded(REGTEST)
    clients = [greeted(pool, f"198.51.100.{at}:1", at + 1) for at in range(6)]
    for client in clients[:-1]:
        client.send(begun[:190_000])
    clients[3].send(begun[190_000:250_000])
    assert [one for one in clients if one.is_closed] == [clients[3]]
    assert parted(pool) == [(reasons.ASKS_TOO_MUCH, "250000 bytes of a packet that is not whole")]


def test_unreadable_command_is_rejected_as_deployed() -> None:
    pool = Pool()
    client = greeted(pool)
    client.is_reading = False
    client.send(Packet("capdmsg", b"\x01", 0x5_0000).encoded(REGTEST))
    [packet] = Unpacker(REGTEST).feed(bytes(client.unread))
    assert packet == Packet("reject", b"\x07capdmsg\x01\x15error parsing message", 0x5_FFFF)
    assert peers(pool)["neighbours"][0]["points"] == 0


def test_searches_of_one_neighbour_let_others_in_between_and_are_answered_in_order() -> None:
    pool = Pool(limits=replace(LIMITS, turn_units=3 * QUERY_UNITS))
    post(pool, OFFER)
    busy, other = greeted(pool), greeted(pool, "127.0.0.1:4001", 5)
    pool.is_stepped = True
    many = [own.MaskedQuery(number, 1, 0, 9, Pattern.prefix(b"TKD")) for number in range(20)]
    assert [one.cookie for one in busy.say(*many)] == [0, 1, 2, 3, 4, 5], "a turn when it asks, and one after that"
    assert [one.cookie for one in other.say(n.PrefixQuery(99, 1, 0, 9, b"TKD\x0c"))] == [99]
    pool.is_stepped = False
    pool.hear(c.Tick())
    assert [one.cookie for one in busy.take()] == list(range(6, 20)), "the rest comes when it is woken"


def test_query_costs_units_for_its_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "UNIT_MATCHES", 1)
    pool = Pool(limits=replace(LIMITS, units_burst=60.0 + 4 * (QUERY_UNITS + 8), units_per_s=0.001))
    for number in range(8):
        post(pool, posted(b"TKD%d" % number, 4.0))
    client = greeted(pool)
    found = 0
    while not client.is_closed:
        found += len(client.say(n.PrefixQuery(1, 1, 0, 0, b"TK")))
    assert 4 <= found <= 6, "8 messages of each cost as much as 8 units"


def test_ban_is_told_by_peers_at_either_side() -> None:
    place = "203.0.113.7:7001"
    pool, other = Pool(Settings(network="regtest", connect=(place,))), Pool()
    assert pool.dialled == [f"tcp://{place}"]
    liar = greeted(other, FAR)
    liar.say(n.Msg(tuple(posted(b"%d" % number, 4.0, BORN - 590) for number in range(100))))
    assert liar.is_closed and peers(other)["banned"] == {"203.0.113.7": int(BAN_S)}
    other.pass_time(3600)
    assert peers(other)["banned"] == {"203.0.113.7": int(BAN_S) - 3600}
    closed = Client.__new__(Client)
    closed.is_closed, closed.is_reading, closed.unread = False, False, bytearray()
    pool.open(closed, place, DIALLED, place)
    pool.hear(c.Came(DIALLED, closed.peer, b""))
    [problem] = peers(pool)["unconnected"]
    assert problem["target"] == place and "has banned this machine's address" in problem["problem"]
