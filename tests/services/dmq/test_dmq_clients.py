"""The places at a DMQ node's doors: who gets one, what the others are told, and what an operator sees of it."""

from __future__ import annotations

import msgspec
from samples.dmq import BODY, POOLS
from samples.dmq_node import Client, Host

from services.dmq.core import handshake as h
from services.dmq.core.client_session import HELLO_S
from services.dmq.core.client_sessions import CAUSES_MAX, FULL_S, OTHER_CAUSES
from services.dmq.core.mux import HEAD
from services.dmq.core.signed_message import Dmq05
from services.dmq.core.submission import MsgAcceptMessage
from services.dmq.node_commands import about_clients
from services.dmq.settings import Settings

SETTINGS = Settings(stake_file="stake", consumers=("a=unix:a.sock", "b=unix:b.sock"))


def host(**given: object) -> Host:
    return Host(msgspec.structs.replace(SETTINGS, **given), *(pool.id for pool in POOLS))


def test_hellos_have_a_share_and_a_time() -> None:
    node = host(clients_max=4)
    silent = [node.connect(greets=False) for _ in range(3)]
    assert [one.is_closed for one in silent] == [False, False, True]
    silent[0].send(b"\0")  # one byte of an SDU
    node.pass_time(HELLO_S)
    assert [one.is_closed for one in silent] == [True, True, True]
    node.pass_time(10)
    causes = {one.fields["cause"]: one.fields["count"] for one in node.events("dmq_broken_off")}
    lacks = "no place: clients_max (4) allows 2 without a handshake"
    assert causes == {f"no handshake within {HELLO_S:g} s": 2, lacks: 1}
    clients = node.ask("status")["clients"]
    assert (clients["causes"], clients["broken_off"], clients["without_place"]) == (causes, 3, 1)


def refusal(client: Client) -> str:
    [answer] = client.heard
    assert isinstance(answer, h.MsgRefuse) and isinstance(answer.reason, h.Refused) and client.is_closed
    return answer.reason.text


def test_a_client_without_a_place_is_told_and_those_at_other_doors_have_theirs() -> None:
    node = host(clients_max=4, consumer_clients_max=2)
    held = [node.connect() for _ in range(4)]
    node.connect()
    assert refusal(node.connect()) == "no place: clients_max (4) are connected"
    assert [one.is_closed for one in held] == [False] * 4
    named = [node.connect("consumer a"), node.connect("consumer b"), node.connect("consumer a")]
    assert [one.request(blocking=False) for one in named] == [()] * 3
    assert named[0].is_closed, "the newest that asks is the consumer"
    node.connect("consumer a")
    assert refusal(node.connect("consumer a")) == "no place: consumer_clients_max (2) are connected at the socket of a"
    clients = node.ask("status")["clients"]
    assert (clients["taken"], clients["places"], clients["without_place"]) == (4, 4, 3)
    assert clients["causes"] == {
        "no place: clients_max (4) are connected": 2,
        "no place: consumer_clients_max (2) are connected at the socket of a": 1,
        "a newer connection has taken the consumer's place": 1,
    }
    held[0].hang_up()
    message = Dmq05().write(POOLS[0].draft(BODY))
    assert node.connect().submit(message) == MsgAcceptMessage(), "the place of one that has gone is free"
    elsewhere = node.connect(greets=False)
    elsewhere.say(h.NUMBER, h.propose(1))
    assert refusal(elsewhere).startswith("version data mismatch"), "that is more use to it than that there is no place"


def test_the_log_warns_once_a_minute_that_there_is_no_place() -> None:
    node = host(clients_max=2)
    held = [node.connect() for _ in range(2)]
    for _ in range(3):
        node.connect()
    node.pass_time(1)
    remedy = "raise services.dmq.clients_max, or look who holds them, as with `ss -xp`"
    said = f"found no place at local_socket, which has 2: {remedy}"
    assert node.warnings == [f"3 clients {said}"]
    node.connect()
    node.pass_time(FULL_S - 1)
    assert len(node.warnings) == 1
    node.connect()
    node.pass_time(1)
    assert node.warnings[1:] == [f"2 clients {said}"]
    node.pass_time(FULL_S)
    assert len(node.warnings) == 2 and not any(one.is_closed for one in held)


def test_the_causes_that_status_shows_and_the_others_sum_up() -> None:
    node = host(clients_max=2)
    for number in range(4):
        for _ in range(number + 1):
            node.connect().send(HEAD.pack(0, 90 + number, 1) + b"\0")
    for data in (HEAD.pack(0, 14, 0), HEAD.pack(0, 0x800E, 1) + b"\0"):
        node.connect().send(data)
    for _ in range(3):
        node.connect()
    clients = node.ask("status")["clients"]
    shown = clients["causes"]
    assert next(iter(shown)) == "no place: clients_max (2) are connected", "first, however often there are others"
    assert list(shown.values()) == [1, 4, 3, 2, 1] and (clients["broken_off"], clients["other_causes"]) == (13, 2)
    assert about_clients(clients) == [
        ("clients", "2; 2 of 2 places of local_socket are taken; the node has closed 13"),
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
