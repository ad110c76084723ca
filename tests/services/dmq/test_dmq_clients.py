"""The places at a DMQ node's doors: who gets one, what the others are told, and what an operator sees of it."""

from __future__ import annotations

import msgspec
from samples.dmq import BODY, POOLS
from samples.dmq_node import Client, Host

from services.dmq.core.clients.connection import HELLO_S, SILENT_S
from services.dmq.core.clients.connections import CAUSES_MAX, OTHER_CAUSES
from services.dmq.core.clients.place_warnings import PAUSE_S
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols.mux import HEAD
from services.dmq.core.protocols.submission import NUMBER, MsgAcceptMessage
from services.dmq.node_commands import about_clients
from services.dmq.settings import Settings

SETTINGS = Settings(stake_file="stake", consumers=("a=unix:a.sock", "b=unix:b.sock"))


def host(**given: object) -> Host:
    return Host(msgspec.structs.replace(SETTINGS, **given), *(pool.id for pool in POOLS))


def test_hellos_have_a_share_and_a_time() -> None:
    node = host(clients_max=4)
    silent = [node.connect(greets=False) for _ in range(3)]
    assert [one.is_closed for one in silent] == [True, False, False], "the one that came first gives way"
    silent[1].send(b"\0")  # one byte of an SDU
    node.pass_time(HELLO_S)
    assert [one.is_closed for one in silent] == [True, True, True]
    node.pass_time(10)
    causes = {one.fields["cause"]: one.fields["count"] for one in node.events("dmq_broken_off")}
    gave_way = "gave way to a new client: clients_max (4) allows 2 without a handshake"
    assert causes == {f"no handshake within {HELLO_S:g} s": 2, gave_way: 1}
    clients = node.ask("status")["clients"]
    assert (clients["causes"], clients["broken_off"], clients["gave_way"]) == (causes, 3, 1)


def refusal(client: Client) -> str:
    [answer] = client.heard
    assert isinstance(answer, h.MsgRefuse) and isinstance(answer.reason, h.Refused) and client.is_closed
    return answer.reason.text


def waiting(node: Host, count: int = 1, user: int = 1000) -> list[Client]:
    """Return clients of the common socket that wait for messages."""
    found = [node.connect(user=user) for _ in range(count)]
    assert [one.request() for one in found] == [None] * count
    return found


def test_a_client_without_a_place_is_told_and_those_at_other_doors_have_theirs() -> None:
    node = host(clients_max=4, consumer_clients_max=2)
    held = waiting(node, 4)
    assert [refusal(node.connect()) for _ in range(2)] == ["no place: clients_max (4) are connected"] * 2
    assert [one.is_closed for one in held] == [False] * 4
    named = [node.connect("consumer a"), node.connect("consumer b"), node.connect("consumer a")]
    assert [one.request(blocking=False) for one in named] == [()] * 3
    assert named[0].is_closed, "the newest that asks is the consumer"
    clients = node.ask("status")["clients"]
    assert (clients["taken"], clients["places"], clients["without_place"]) == (4, 4, 2)
    assert clients["causes"] == {
        "no place: clients_max (4) are connected": 2,
        "a newer connection has taken the consumer's place": 1,
    }
    held[0].hang_up()
    message = Dmq05().write(POOLS[0].draft(BODY))
    assert node.connect().submit(message) == MsgAcceptMessage(), "the place of one that has gone is free"
    elsewhere = node.connect(greets=False)
    elsewhere.say(h.NUMBER, h.propose(1))
    assert refusal(elsewhere).startswith("version data mismatch"), "that is more use to it than that there is no place"


def test_the_client_that_is_idle_for_longest_gives_way_and_the_status_says_so() -> None:
    node = host(clients_max=4)
    message = [Dmq05().write(POOLS[number].draft(BODY)) for number in range(2)]
    [consumer] = waiting(node)
    forgotten = []
    for _ in range(3):
        forgotten.append(node.connect())
        node.pass_time(1)
    assert forgotten[0].submit(message[0]) == MsgAcceptMessage(), "so it is the last that was active"
    assert consumer.messages() == (message[0],) and consumer.request() is None
    signer = node.connect()
    assert signer.submit(message[1]) == MsgAcceptMessage()
    assert consumer.messages() == (message[1],)
    assert [one.is_closed for one in (consumer, *forgotten)] == [False, False, True, False]
    clients = node.ask("status")["clients"]
    why = "gave way to a new client: clients_max (4) are connected"
    assert (clients["taken"], clients["gave_way"], clients["without_place"]) == (4, 1, 0)
    assert clients["causes"] == {why: 1} and ("", f"1: {why}") in about_clients(clients)


def test_a_client_that_has_begun_something_does_not_give_way() -> None:
    node = host(clients_max=3)
    begun = [node.connect() for _ in range(2)]
    begun[0].send(HEAD.pack(0, NUMBER, 4)[:3])
    begun[1].send(HEAD.pack(0, NUMBER, 4) + b"\x82\0")
    [consumer] = waiting(node)
    assert refusal(node.connect()) == "no place: clients_max (3) are connected"
    assert not any(one.is_closed for one in (*begun, consumer))


def test_who_was_silent_since_its_handshake_gives_way_before_one_that_has_asked() -> None:
    node = host(clients_max=2)
    asked = node.connect()
    assert asked.request(blocking=False) == ()
    silent = node.connect()
    node.pass_time(SILENT_S - 1)
    assert not node.connect().is_closed and (asked.is_closed, silent.is_closed) == (True, False)
    node.pass_time(1)
    assert not node.connect().is_closed and silent.is_closed


def test_a_named_consumer_keeps_its_place_while_it_works_on_a_reply() -> None:
    node = host(consumer_clients_max=2)
    consumer = node.connect("consumer a")
    message = Dmq05().write(POOLS[0].draft(BODY))
    assert node.connect().submit(message) == MsgAcceptMessage()
    assert consumer.request() == (message,)
    node.pass_time(3600 * 24)
    others = [node.connect("consumer a", user=1001) for _ in range(4)]
    assert [one.is_closed for one in (consumer, *others)] == [False, True, True, True, False]


def test_one_user_takes_no_place_of_another() -> None:
    node = host(clients_max=4)
    own = waiting(node, user=1)
    greedy = waiting(node, 3, user=2)
    assert refusal(node.connect(user=2)).startswith("no place")
    assert [node.connect(user=2, greets=False).is_closed for _ in range(9)] == [False] * 9
    late = node.connect(user=3)
    assert [one.is_closed for one in (*own, *greedy)] == [False, True, False, False]
    assert refusal(node.connect(user=2)).startswith("no place") and not late.is_closed
    last = node.connect(user=1)
    assert [one.is_closed for one in (*own, *greedy, late, last)] == [False, True, True, False, False, False]


def test_many_users_with_a_client_each_take_no_place_of_one_that_waits() -> None:
    node = host(clients_max=4)
    consumer = waiting(node, user=1)[0]
    for user in range(100, 110):
        one = node.connect(user=user)
        if not one.is_closed:
            assert one.request() is None
    assert not consumer.is_closed
    idle = host(clients_max=4)
    first = [idle.connect(user=user) for user in range(4)]
    assert not idle.connect(user=9).is_closed and any(one.is_closed for one in first), "one that is idle gives way"


def test_the_hellos_of_one_user_give_way_to_those_of_another() -> None:
    node = host(clients_max=8)
    quiet = node.connect(greets=False, user=1)
    flood = [node.connect(greets=False, user=2) for _ in range(20)]
    assert not quiet.is_closed and [one.is_closed for one in flood[-3:]] == [False] * 3
    quiet.say(h.NUMBER, h.propose(node.ask("status")["magic"]))
    assert isinstance(quiet.heard[0], h.MsgAcceptVersion)


def test_the_log_warns_once_a_minute_that_there_is_no_place() -> None:
    node = host(clients_max=2)
    held = waiting(node, 2)
    for _ in range(3):
        node.connect()
    node.pass_time(1)
    remedy = "raise services.dmq.clients_max; `ss -xp` shows who holds them"
    said = f"found no place at local_socket, which has 2: {remedy}"
    assert node.warnings == [f"3 clients {said}"]
    node.connect()
    node.pass_time(PAUSE_S - 1)
    assert len(node.warnings) == 1
    node.connect()
    node.pass_time(1)
    assert node.warnings[1:] == [f"2 clients {said}"]
    node.pass_time(PAUSE_S)
    assert len(node.warnings) == 2 and not any(one.is_closed for one in held)


def test_the_log_warns_that_clients_gave_way_and_whose_they_were() -> None:
    node = host(clients_max=2)
    for user in (1, 1, 1, 1, 2):
        node.connect(user=user)
    node.pass_time(1)
    said = "gave way to new ones at local_socket, which has 2: see whether a program leaves its connections open, or"
    assert node.warnings == [
        f"3 clients of user 1 {said} raise services.dmq.clients_max; `ss -xp` shows who holds them"
    ]


def test_the_causes_that_status_shows_and_the_others_sum_up() -> None:
    node = host(clients_max=2)
    for number in range(4):
        for _ in range(number + 1):
            node.connect().send(HEAD.pack(0, 90 + number, 1) + b"\0")
    for data in (HEAD.pack(0, 14, 0), HEAD.pack(0, 0x800E, 1) + b"\0"):
        node.connect().send(data)
    waiting(node, 2)
    for _ in range(3):
        node.connect()
    clients = node.ask("status")["clients"]
    shown = clients["causes"]
    assert next(iter(shown)) == "no place: clients_max (2) are connected", "first, however often there are others"
    assert list(shown.values()) == [3, 4, 3, 2, 1] and (clients["broken_off"], clients["other_causes"]) == (15, 2)
    assert about_clients(clients) == [
        ("clients", "2; 2 of 2 places of local_socket are taken; the node has closed 15"),
        *(("", f"{count}: {cause}") for cause, count in shown.items()),
        ("", "and 2 for other causes"),
    ]
    alone = host(clients_max=2)
    alone.connect().send(HEAD.pack(0, 14, 0))
    clients = alone.ask("status")["clients"]
    assert (len(about_clients(clients)), clients["other_causes"]) == (2, 0)


def test_beyond_fifty_causes_they_are_counted_together() -> None:
    node = host(clients_max=2)
    for number in range(CAUSES_MAX + 3):
        node.connect().send(HEAD.pack(0, 100 + number, 1) + b"\0")
    clients = node.ask("status")["clients"]
    assert sum(clients["causes"].values()) + clients["other_causes"] == clients["broken_off"] == CAUSES_MAX + 3
    assert OTHER_CAUSES not in clients["causes"] and len(clients["causes"]) == 5
