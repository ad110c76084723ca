"""A node's datagrams on a LAN, and its reactions to those of others: by value, and in a simulated network (D17–D19)."""

from __future__ import annotations

from ipaddress import ip_address
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.lan import DOOR, HIGH, LOW, WALL_S, SimulatedNetwork, at, came, interface, key_of, of, signed, speaking

from router.core.wire.advert import decode_datagram
from router.core.wire.reasons import ADVERT_STALE, Reason
from router.service.contract import AddNeighbour, Tick, Wake, Warn, Write
from router.service.roles.discovery import (
    Advertise,
    Dial,
    Interface,
    Interfaces,
    Listen,
    Listening,
    NeighbourLinked,
    NeighbourUnreachable,
    Signed,
    UseInterfaces,
    WriteOnClose,
)
from services.discovery.core.lan.answers import ANSWERED_PER_S
from services.discovery.core.lan.gate import RENEWED_BURST, REST_BURST, SHARED_PER_S, SOURCE_BURST
from services.discovery.core.lan.lan import FAREWELL, SPOKEN, YIELD_S, Lan
from services.discovery.core.lan.neighbours import SOURCES_MAX, Neighbour, Source
from services.discovery.core.lan.networks import ALLOWED, EVERYWHERE, OFF, Network, Permit, network_of
from services.discovery.core.lan.paces import Pace
from services.discovery.core.lan.reports import CLAIMED_S, KEPT_S
from services.discovery.core.lan.schedule import CROWDED_S, Schedule
from services.discovery.core.lan.waiting import CROWD
from services.discovery.reasons import LAN_FLOOD, LAN_OFF_LINK


def the_network(one: Interface) -> Network:
    found = network_of(one)
    assert found is not None
    return found


# -- speaking ---------------------------------------------------------------------------------------------------------


def test_nothing_is_said_or_listened_to_until_the_network_is_allowed() -> None:
    lan = Lan(LOW.public, DOOR, Random(1), Permit(ALLOWED))
    assert lan.hear(Interfaces(DOOR, (interface(1),)), at(0)) == []
    deeds = lan.hear(Permit(ALLOWED, frozenset((the_network(interface(1)).id,))), at(1))
    assert of(UseInterfaces, deeds) == [UseInterfaces(DOOR, (2,))]
    assert of(Listen, deeds) == [Listen("tls://:0")]
    assert not of(Write, deeds) and not of(Advertise, deeds)  # its port is not known yet


def test_what_is_said_is_signed_and_its_farewell_after_it() -> None:
    lan = Lan(LOW.public, DOOR, Random(1), Permit(EVERYWHERE))
    lan.hear(Interfaces(DOOR, (interface(1),)), at(0))
    said, farewell = of(Advertise, lan.hear(Listening("tls://:4107"), at(0)))
    assert said == Advertise(("tls://0.0.0.0:4107",), (), 30, 600, SPOKEN)
    assert farewell == Advertise(("tls://0.0.0.0:4107",), (), 0, 600, FAREWELL)


def test_the_datagrams_go_out_at_once_after_1_2_4_8_s_and_then_every_10_s() -> None:
    lan, sent = speaking(), [0.0]
    now_s = 0.0
    for _ in range(12):
        [wake] = of(Wake, deeds := lan.hear(Tick(), at(now_s)))
        sent += [now_s] * len(of(Write, deeds))
        now_s = wake.at_s - WALL_S + 1e-6
    assert [round(one, 3) for one in sent[:5]] == [0, 1, 2, 4, 8]
    assert all(7.5 <= later - earlier <= 12.5 for earlier, later in pairwise(sent[4:]))
    assert len(sent) == 12


def test_a_change_of_address_is_signed_anew_and_said_from_the_start() -> None:
    lan = speaking()
    for second in (1, 2, 4, 8):
        lan.hear(Tick(), at(second))
    deeds = lan.hear(Interfaces(DOOR, (interface(1, more="10.0.0.77/24"),)), at(8.5))
    assert len(of(Write, deeds)) == 1 and [one.tag for one in of(Advertise, deeds)] == [SPOKEN, FAREWELL]
    assert len(of(Write, lan.hear(Tick(), at(9.5)))) == 1


def test_it_is_signed_anew_after_five_minutes() -> None:
    lan = speaking()
    assert not of(Advertise, lan.hear(Tick(), at(299)))
    assert [one.tag for one in of(Advertise, lan.hear(Tick(), at(301)))] == [SPOKEN, FAREWELL]


def test_a_network_that_is_not_allowed_any_more_hears_the_farewell_before_it_is_left() -> None:
    lan = speaking()
    deeds = lan.hear(Permit(), at(3))
    assert deeds[:3] == [Write(DOOR, "*%2", signed(LOW, 2, ttl_s=0)), UseInterfaces(DOOR, ()), Listen("")]
    assert not of(Write, lan.hear(Tick(), at(20)))


def test_on_a_clean_stop_the_farewell_is_the_last_word() -> None:
    lan = Lan(LOW.public, DOOR, Random(3), Permit(EVERYWHERE))
    lan.hear(Interfaces(DOOR, (interface(1),)), at(0))
    lan.hear(Listening("tls://:4101"), at(0))
    farewell = signed(LOW, 2, ttl_s=0)
    assert WriteOnClose(DOOR, "*%2", farewell) in lan.hear(Signed(FAREWELL, farewell), at(0))


def test_a_port_that_is_taken_is_asked_for_again() -> None:
    lan = Lan(LOW.public, DOOR, Random(3), Permit(EVERYWHERE, port=4101))
    assert of(Listen, lan.hear(Interfaces(DOOR, (interface(1),)), at(0))) == [Listen("tls://:4101")]
    lan.hear(Listening("", "port 4101 is taken"), at(0))
    assert lan.problem == "port 4101 is taken"
    assert of(Listen, lan.hear(Tick(), at(11))) == [Listen("tls://:4101")]


def test_a_key_that_was_proven_at_an_address_which_five_links_have_is_heard_on_each() -> None:
    ip = ip_address("fe80::9")
    neighbour = Neighbour(decode_datagram(signed(HIGH)), ip=ip)
    for link in range(SOURCES_MAX + 1):
        assert neighbour.came_from(Source(ip, link), float(link), 60.0)
    assert [one.at for one in neighbour.sources] == [1, 2, 3, 4]


# -- hearing ----------------------------------------------------------------------------------------------------------


def test_an_unknown_router_is_made_known_at_where_its_datagram_came_from_answered_and_dialled() -> None:
    deeds = speaking().hear(came(signed(HIGH, port=4777)), at(5))
    assert of(AddNeighbour, deeds) == [
        AddNeighbour(HIGH.public, ("tls://10.0.0.9:4777",), int(WALL_S) + 5 + CLAIMED_S, how="lan")
    ]
    assert Write(DOOR, "10.0.0.9%2:40000", signed(LOW)) in deeds
    assert of(Dial, deeds) == [Dial(HIGH.public)]


def test_what_a_router_calls_itself_is_reported_once_and_again_when_it_changes() -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    said = ["ann", "ann", *(f"ann{number}" for number in range(10))]
    reported = [one.name for name in said for one in of(AddNeighbour, lan.reports.is_named(HIGH.public, name, at(1)))]
    assert reported == ["ann", "ann0", "ann1"], "no more often than addresses are"
    later = [one.name for second in (8, 9) for one in of(AddNeighbour, lan.hear(came(signed(HIGH)), at(second)))]
    assert later == ["ann9"]
    assert not lan.reports.is_named(LOW.public, "ann", at(20)), "who is not near has no name"


def test_the_higher_key_dials_three_seconds_later() -> None:
    lan = speaking(HIGH)
    assert not of(Dial, lan.hear(came(signed(LOW)), at(5)))
    assert not of(Dial, lan.hear(Tick(), at(5 + YIELD_S - 0.1)))
    assert of(Dial, lan.hear(Tick(), at(5 + YIELD_S))) == [Dial(LOW.public)]


def test_an_answer_is_not_answered() -> None:
    deeds = speaking().hear(came(signed(HIGH), to_group=False), at(0.5))
    assert of(AddNeighbour, deeds) and not of(Write, deeds)


def test_a_link_local_source_is_reached_by_its_interface() -> None:
    deeds = speaking().hear(came(signed(HIGH), "fe80::9%2:40000"), at(5))
    assert of(AddNeighbour, deeds)[0].urls == ("tls://[fe80::9%2]:4101",)


def test_who_does_not_let_us_in_may_not_hear_what_all_hear_and_is_told_alone() -> None:
    lan, told = speaking(), [Write(DOOR, "10.0.0.9%2:40000", signed(LOW))]

    def answers(second: int) -> list[Write]:
        return [one for one in of(Write, lan.hear(came(signed(HIGH)), at(second))) if one.peer != "*%2"]

    assert answers(1) == told and not answers(15)
    lan.hear(NeighbourUnreachable(HIGH.public, "not let in", let_in=False), at(16))
    assert answers(17) == told and not answers(18)
    lan.hear(NeighbourUnreachable(HIGH.public, "not let in", let_in=False), at(27))
    assert answers(28) == told


def test_who_was_silent_for_half_its_time_is_asked_and_who_is_asked_answers_once() -> None:
    """One of the two may not receive datagrams to everybody."""
    deaf, other = speaking(), speaking(HIGH)
    assert not of(Write, deaf.hear(came(signed(HIGH), to_group=False), at(0.5)))
    [ask] = [one for one in of(Write, deaf.hear(Tick(), at(15.5))) if one.peer != "*%2"]
    assert ask == Write(DOOR, "10.0.0.9%2:40000", signed(LOW))
    other.hear(came(signed(LOW), "10.0.0.1%2:40000"), at(0.5))
    [answer] = [
        one for one in of(Write, other.hear(came(ask.data, "10.0.0.1%2:40000", to_group=False), at(15.5)))
        if one.peer != "*%2"
    ]  # fmt: skip
    assert answer == Write(DOOR, "10.0.0.1%2:40000", signed(HIGH))
    assert not of(Write, deaf.hear(came(answer.data, to_group=False), at(15.6)))
    deaf.hear(Tick(), at(31))
    [one] = deaf.neighbours
    assert one.is_here


def test_a_router_is_told_at_each_address_that_it_speaks_from() -> None:
    lan, peers = speaking(), ["fe80::9%2:40000", "10.0.0.9%2:40001"]
    told = [of(Write, lan.hear(came(signed(HIGH), peer), at(0.5))) for peer in (*peers, *peers)]
    assert told == [[Write(DOOR, peer, signed(LOW))] for peer in peers] + [[], []]


@pytest.mark.parametrize("end", ["silence", "farewell"])
def test_who_falls_silent_or_says_farewell_stays_known_without_an_address(end: str) -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    lan.hear(NeighbourLinked(HIGH.public, "10.0.0.9"), at(0))
    lan.hear(NeighbourLinked(HIGH.public, is_up=False), at(1))
    if end == "silence":
        assert not of(AddNeighbour, lan.hear(Tick(), at(29.9)))
        learned = of(AddNeighbour, lan.hear(Tick(), at(30.1)))
    else:
        learned = of(AddNeighbour, lan.hear(came(signed(HIGH, 2, ttl_s=0)), at(30.1)))
    assert learned == [AddNeighbour(HIGH.public, (), int(WALL_S + 30.1) + KEPT_S, how="lan")]


@pytest.mark.parametrize("end", ["silence", "farewell"])
def test_who_falls_silent_and_was_never_connected_is_forgotten(end: str) -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    ends = came(signed(HIGH, 2, ttl_s=0)) if end == "farewell" else Tick()
    assert of(AddNeighbour, lan.hear(ends, at(30.1))) == [AddNeighbour(HIGH.public)]


def test_the_farewell_of_who_is_not_known_takes_no_place() -> None:
    lan = speaking()
    assert not of(AddNeighbour, lan.hear(came(signed(HIGH, ttl_s=0)), at(0))) and not len(lan.neighbours)


def test_who_is_connected_is_here_whatever_becomes_of_its_datagrams() -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    lan.hear(NeighbourLinked(HIGH.public, "10.0.0.9"), at(1))
    [one] = lan.neighbours
    for second in range(30, 600, 30):
        assert not [each for each in of(AddNeighbour, lan.hear(Tick(), at(second))) if not each.urls]
        assert one.is_here
    lan.hear(NeighbourLinked(HIGH.public, is_up=False), at(600))
    lan.hear(Tick(), at(631))
    assert not one.is_here


def test_what_was_said_before_the_farewell_counts_no_more() -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    lan.hear(came(signed(HIGH, 2, ttl_s=0)), at(2))
    assert lan.hear(came(signed(HIGH)), at(4))[:-1] == [Write(DOOR, "*%2", signed(LOW))]  # the own schedule alone
    assert lan.turned_away.by_reason() == {ADVERT_STALE: 1}
    assert of(AddNeighbour, lan.hear(came(signed(HIGH, 3)), at(6)))


# -- before the signature ---------------------------------------------------------------------------------------------


def test_a_source_has_four_at_once_then_one_a_second_and_beyond_that_what_all_such_sources_have_together() -> None:
    lan = speaking()
    forged = [signed(HIGH)[:-1] + bytes((number,)) for number in range(250) if number != signed(HIGH)[-1]]
    at_once = [lan.admits(came(one), 1.0) for one in forged[: SOURCE_BURST + REST_BURST + 9]]
    assert at_once.count(True) == SOURCE_BURST + REST_BURST
    assert lan.admits(came(forged[0], "10.0.0.77%2:4"), 1.0), "another has its share"
    heard = [lan.admits(came(one, f"10.0.0.{number + 1}%2:4"), 5.0) for number, one in enumerate(forged)]
    assert heard.count(True) == SHARED_PER_S + REST_BURST
    assert lan.turned_away.by_reason() == {LAN_FLOOD: 9 + len(forged) - SHARED_PER_S - REST_BURST}


def test_a_farewell_right_after_what_was_new_is_heard() -> None:
    lan, other = speaking(), key_of(9)
    for rev, ttl_s in ((1, 30), (2, 30), (3, 0)):
        one = came(signed(other, rev, ttl_s=ttl_s))
        assert lan.admits(one, 1.0)
        lan.hear(one, at(1.0))
    assert not any(one.is_here for one in lan.neighbours)


def test_a_source_gets_no_more_than_its_burst_and_one_a_second() -> None:
    pace = Pace(200, burst=SOURCE_BURST)
    taken = sum(pace.take("one", tenth / 10) for tenth in range(1000))
    assert taken == SOURCE_BURST + 99
    assert pace.take("another", 100.0)


def test_off_forgets_everybody_that_was_heard() -> None:
    lan = speaking()
    for number in (8, 9):
        lan.hear(came(signed(key_of(number))), at(1))
    gone = of(AddNeighbour, lan.hear(Permit(OFF), at(2)))
    assert gone == [AddNeighbour(key_of(8).public), AddNeighbour(key_of(9).public)] and not len(lan.neighbours)


def test_what_a_known_router_says_again_is_heard_while_others_flood() -> None:
    lan = speaking()
    lan.hear(came(signed(HIGH)), at(0))
    for number in range(300):
        lan.admits(came(signed(HIGH)[:-1] + b"wrong", f"10.0.0.{number % 250 + 1}%2:4"), 9.5)
    assert [lan.admits(came(signed(HIGH)), 9.6) for _ in range(20)].count(True) == 2 * RENEWED_BURST


def test_a_copy_of_this_home_on_the_same_network_is_told_of_once() -> None:
    """Both sign by one key. What is forged, or was said in an earlier run, tells of none."""
    lan = speaking()
    forged = signed(HIGH, 9).replace(bytes(HIGH.public), bytes(LOW.public))
    for data in (signed(LOW), signed(LOW, 0), forged):
        assert not of(Warn, lan.hear(came(data), at(0)))
    [told] = of(Warn, lan.hear(came(signed(LOW, 7)), at(1)))
    assert "10.0.0.9" in told.text and "this home was copied" in told.text
    assert not of(Warn, lan.hear(came(signed(LOW, 8)), at(2)))


@pytest.mark.parametrize("peer", ["10.0.1.9%2:40000", "8.8.8.8%2:40000", "2001:db8::1%2:40000", "10.0.0.9%3:40000"])
def test_a_source_that_is_not_on_the_link_is_not_heard(peer: str) -> None:
    lan = speaking()
    assert not lan.admits(came(signed(HIGH), peer), 0)
    assert not of(AddNeighbour, lan.hear(came(signed(HIGH), peer), at(0)))
    assert lan.turned_away.by_reason() == {LAN_OFF_LINK: 2}
    assert LAN_OFF_LINK.sentence == "The datagram came from beyond the network that it arrived by."


def test_what_this_node_says_itself_is_not_heard() -> None:
    lan = speaking()
    assert not lan.admits(came(signed(LOW)), 0)
    assert not len(lan.turned_away)
    assert not of(AddNeighbour, lan.hear(came(signed(LOW, 7)), at(0)))  # of our own key, though not what we say
    assert lan.turned_away.by_reason() == {ADVERT_STALE: 1}
    assert ADVERT_STALE.sentence == "A newer advertisement of that router is known."


NO_MESSAGE = "The bytes are not a message of this protocol."


def forged(data: bytes) -> bytes:
    place = data.index(b"sig\x58\x40") + 10
    return data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]


@pytest.mark.parametrize(
    ("data", "reason", "said"),
    [
        (signed(HIGH)[:-1], Reason.MALFORMED, NO_MESSAGE),
        (signed(HIGH) + b"\0", Reason.MALFORMED, NO_MESSAGE),
        (signed(HIGH).replace(b"\x18\x1e", b"\x19\x00\x1e"), Reason.MALFORMED, NO_MESSAGE),
        (signed(HIGH, groups=27), Reason.MALFORMED, NO_MESSAGE),
        (forged(signed(HIGH)), Reason.BAD_SIGNATURE, "The signature does not fit the key that the message names."),
        (signed(HIGH, now_s=-700), Reason.EXPIRY_PASSED, "The message's expiry time has passed."),
        (signed(HIGH, now_s=200_000), Reason.EXPIRY_TOO_FAR, "expiry lies further ahead than this router allows."),
    ],
    ids=["truncated", "with a byte more", "not canonical", "27 groups", "forged", "expired", "of a wrong clock"],
)
def test_bad_datagrams_are_counted_by_their_reason_and_nothing_follows(data: bytes, reason: Reason, said: str) -> None:
    lan = speaking()
    assert of(AddNeighbour, lan.hear(came(signed(HIGH, 1, groups=26)), at(0)))
    lan = speaking()
    deeds = lan.hear(came(data), at(0.5))
    assert not of(AddNeighbour, deeds) and not of(Dial, deeds) and not of(Write, deeds)
    assert lan.turned_away.by_reason() == {reason: 1}
    assert reason.sentence.endswith(said)


def test_an_oversized_datagram_and_one_that_is_none_are_turned_away_unread() -> None:
    lan = speaking()
    assert not lan.admits(came(signed(HIGH) + bytes(1200)), 0)
    assert not lan.admits(came(b""), 0)
    assert lan.turned_away.by_reason() == {Reason.MALFORMED: 2}


def test_one_key_has_four_sources_and_a_new_one_takes_the_place_of_one_that_fell_silent() -> None:
    lan = speaking()
    for number in range(SOURCES_MAX + 1):
        lan.hear(came(signed(HIGH), f"10.0.0.{10 + number}%2:4"), at(number))
    [one] = lan.neighbours
    assert [str(source.ip) for source in one.sources] == [f"10.0.0.{10 + number}" for number in range(SOURCES_MAX)]
    lan.hear(came(signed(HIGH), "10.0.0.99%2:4"), at(31))
    assert "tls://10.0.0.99:4101" in one.urls and "tls://10.0.0.10:4101" not in one.urls


def test_answers_are_ten_a_second_and_each_source_of_a_key_is_answered_once_in_ten_seconds() -> None:
    lan = speaking()
    known = [came(signed(key_of(100 + number))) for number in range(20)]
    for number, one in enumerate(known):
        lan.hear(one, at(number))
    deeds = [
        one
        for each in known
        for one in lan.hear(came(each.data, "10.0.0.10%2:40000"), at(20.5))
        if isinstance(one, Write)
    ]
    assert len([one for one in deeds if one.peer != "*%2"]) == ANSWERED_PER_S
    lan = speaking()
    assert of(Write, lan.hear(came(signed(HIGH)), at(0.5)))
    lan.hear(came(signed(HIGH, 2, ttl_s=0)), at(0.6))
    assert not of(Write, lan.hear(came(signed(HIGH, 3)), at(0.7)))


# -- lists ------------------------------------------------------------------------------------------------------------


def test_the_list_names_each_interface_of_a_network_and_how_many_were_heard_there() -> None:
    lan = speaking()
    lo = replace(interface(1, index=1, name="lo"), flags=frozenset(("up", "running", "multicast", "loopback")))
    lan.hear(Interfaces(DOOR, (lo, interface(1))), at(0))
    lan.hear(came(signed(HIGH)), at(0))
    [row] = lan.listed()
    assert (row["interface"], row["allowed"], row["heard"]) == ("eth0", True, 1)
    assert row["network"] == the_network(interface(1)).id and row["name"] == "eth0 10.0.0.0/24"


# -- a simulated network ----------------------------------------------------------------------------------------------


def all_hear_all(net: SimulatedNetwork) -> bool:
    """Whether all present nodes know each other, when nothing was lost for the longest period between datagrams."""
    loss, net.loss = net.loss, 0.0
    net.run(13)
    net.loss = loss
    everybody = {one.key.public for one in net.nodes}
    return all(one.here == everybody - {one.key.public} for one in net.nodes)


@given(seed=st.integers(0, 10_000), size=st.integers(2, 5), loss=st.sampled_from((0.0, 0.2)))
def test_all_hear_all_whoever_comes_goes_or_is_cut_off(seed: int, size: int, loss: float) -> None:
    net = SimulatedNetwork(seed, loss)
    chance = Random(seed)
    for number in range(1, size + 1):
        net.add(number)
        net.run(chance.random() * 20)
    net.run(20)
    assert all_hear_all(net)
    assert all(not node.lan.turned_away.by_reason().keys() - {LAN_FLOOD, ADVERT_STALE} for node in net.nodes)

    cut = net.nodes[0]
    net.unplugged.add(cut.number)
    net.run(31 + 13)
    assert not cut.here and all(cut.key.public not in one.here for one in net.nodes[1:])
    net.unplugged.clear()
    if size > 2:
        net.stop(net.nodes[-1])
    net.run(30)
    assert all_hear_all(net)


def test_a_pair_hears_each_other_at_once_and_one_of_the_two_dials() -> None:
    net = SimulatedNetwork(1)
    first = net.add(1)
    net.run(25)
    second = net.add(2)
    net.run(0.1)
    assert first.here == {second.key.public} and second.here == {first.key.public}
    lower = min(net.nodes, key=lambda one: one.key.public)
    assert [len(one.dialled) for one in net.nodes] == [int(one is lower) for one in net.nodes]


def test_a_node_costs_its_network_less_than_100_bytes_a_second_when_it_is_quiet() -> None:
    net = SimulatedNetwork(1)
    one, other = net.add(1), net.add(2)
    net.run(20)
    before = one.sent, other.sent
    net.run(600)
    sent = max(one.sent - before[0], other.sent - before[1]) / 600
    heads = 14 + 40 + 8  # Ethernet, IPv6, UDP
    assert 2 * sent * (1 + heads / len(signed(LOW))) <= 100  # over IPv4 and IPv6


def test_a_node_that_has_begun_lately_speaks_often_while_many_wait_and_for_no_longer() -> None:
    schedule, said = Schedule(Random(1), 0.0), list[float]()
    for tick in range(int(200 * CROWDED_S)):
        said += [tick / 100] * schedule.take(tick / 100, is_crowded=True)
    assert 4 * CROWDED_S <= sum(one < CROWDED_S for one in said) <= 5 * CROWDED_S + 1
    assert sum(one > CROWDED_S + 1 for one in said) <= CROWDED_S / 7


def test_those_that_wait_are_noticed_by_who_speaks() -> None:
    lan = speaking()
    for number in range(2 * CROWD):
        lan.hear(came(signed(key_of(20_000 + number)), f"10.0.0.{20 + number}%2:4"), at(20))
    said = [one for tick in range(20) for one in of(Write, lan.hear(Tick(), at(20 + tick / 10))) if "*" in one.peer]
    assert 8 <= len(said) <= 11
