"""Named consumers of a DMQ node: where each goes on, what is set aside for it, and what becomes of one that is named no
more."""

from __future__ import annotations

import msgspec
from samples.dmq import EXPIRES_AT
from samples.dmq_node import SETTINGS, Client, host, wire

from router.core.wire.text import span_text
from services.dmq import reasons
from services.dmq.core.clients.connection import ANSWERS_MAX
from services.dmq.core.clients.consumer_warnings import TAKEN_OVER_PAUSE_S
from services.dmq.core.clients.cursor import BREAKS_MAX
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols.mux import HEAD
from services.dmq.core.protocols.submission import MsgAcceptMessage

ACCEPTED = MsgAcceptMessage()


def test_a_named_consumer_goes_on_where_it_acknowledged_and_others_begin_anew() -> None:
    node = host()
    for number in range(3):
        assert node.connect().submit(wire(number)) == ACCEPTED
    first = node.connect("consumer a")
    assert first.request() == (wire(0), wire(1), wire(2))
    assert first.request() is None, "acknowledged; now it waits"
    node.connect().submit(wire(0, b"next"))
    assert first.messages() == (wire(0, b"next"),)
    [read] = node.events("dmq_read")
    assert read.fields == {"handover": "done", "recipient": "a"} and read.each == {"number": [1, 2, 3]}
    node.crash()
    assert node.connect("consumer a").request() == (wire(0, b"next"),), "which was not acknowledged"
    assert len(node.connect("consumer b").request() or ()) == len(node.connect().request() or ()) == 4


def test_a_body_that_breaks_off_its_consumer_is_set_aside_and_can_be_given_again() -> None:
    node = host()
    for number in range(3):
        node.connect().submit(wire(number))
    read: list[bytes] = []
    for _ in range(3 + BREAKS_MAX):
        consumer = node.connect("consumer a")
        while (reply := consumer.request()) and wire(1) not in reply:
            read += reply
        consumer.hang_up()
    assert read == [wire(0), wire(2)] and len(node.events("dmq_set_aside")) == 1
    assert node.ask("status")["consumers"][0] == {"name": "a", "lag": 0, "set_aside": 1, "connected": False}
    node.crash()
    consumer, aside = node.connect("consumer a"), Dmq05().read(wire(1)).id.hex()
    assert consumer.request() is None and node.ask("again", "a 00ff")["error"].startswith(
        "no message whose id begins with 00ff"
    )
    assert node.ask("again", f"a {aside[:8]}") == {"again": [aside]} and consumer.messages() == (wire(1),)
    assert node.ask("again", "a") == {"again": []} and "no consumer" in node.ask("again", "c")["error"]


def test_what_was_set_aside_and_has_expired_is_not_counted_after_a_restart() -> None:
    node = host()
    node.connect().submit(wire())
    while not node.events("dmq_set_aside"):
        consumer = node.connect("consumer a")
        consumer.request()
        consumer.hang_up()
    assert node.ask("status")["consumers"][0]["set_aside"] == 1
    node.pass_time(EXPIRES_AT - node.now.wall_s)
    assert node.ask("status")["consumers"][0]["set_aside"] == 0
    node.crash()
    assert node.ask("status")["consumers"][0]["set_aside"] == 0


def test_the_log_warns_of_what_is_set_aside_once_in_ten_seconds() -> None:
    node = host()
    for number in range(3):
        assert node.connect().submit(wire(number)) == ACCEPTED
    ids = [Dmq05().read(wire(number)).id.hex() for number in range(3)]

    def set_aside(number: int) -> None:
        while len(node.events("dmq_set_aside")) <= number:
            consumer = node.connect("consumer a")
            consumer.request()
            consumer.hang_up()

    set_aside(0)
    node.pass_time(1)
    why = "alone broke off the consumer a again and again; `router dmq again a"
    assert node.warnings == [f"the message {ids[0]} is set aside: it {why} {ids[0]}` gives it once more"]
    set_aside(2)
    for _ in range(9):
        node.pass_time(1)
    assert len(node.warnings) == 1
    node.pass_time(1)
    assert node.warnings[1:] == [
        f"2 messages are set aside, the first of them {ids[1]}: each {why}` gives them once more"
    ]
    for _ in range(11):
        node.pass_time(1)
    assert len(node.warnings) == 2, "each is told once"


def test_the_log_warns_of_two_that_read_as_one_consumer() -> None:
    node = host()
    for _ in range(3):
        node.connect("consumer a").request()
    node.pass_time(1)
    said = "has taken the place of the consumer a 2 times, which was still connected; if two programs"
    assert len(node.warnings) == 1 and said in node.warnings[0] and "give each a --consumer" in node.warnings[0]
    node.connect("consumer a").request()
    node.pass_time(TAKEN_OVER_PAUSE_S - 1)
    assert len(node.warnings) == 1
    node.pass_time(1)
    assert len(node.warnings) == 2 and "of the consumer a, which was" in node.warnings[1]
    alone = host()
    for _ in range(3):
        consumer = alone.connect("consumer a")
        consumer.request()
        consumer.hang_up()
    alone.pass_time(1)
    assert alone.warnings == [], "one that connects again is no second one"


def test_a_consumer_that_is_not_named_for_a_time_goes_on_where_it_stopped() -> None:
    node = host()
    for number in range(3):
        node.connect().submit(wire(number))
    first = node.connect("consumer a")
    assert len(first.request() or ()) == 3 and first.request() is None, "acknowledged"
    node.connect().submit(wire(0, b"unread"))
    node.settings = msgspec.structs.replace(SETTINGS, consumers=("b=unix:b.sock",))
    node.crash()
    left_s = EXPIRES_AT - node.now.wall_s
    assert node.warnings == [
        "the consumer a is named no more; 1 message waits for it. Named again, it goes on where it stopped; "
        f"forgotten in {span_text(left_s)}, when all that it has read has expired"
    ]
    node.connect().submit(wire(1, b"meanwhile"))
    assert node.events("dmq_accepted")[-1].fields["recipients"] == "b", "it is owed nothing new meanwhile"
    assert node.ask("status")["named_no_more"] == [
        {"name": "a", "lag": 2, "set_aside": 0, "forgotten_at": EXPIRES_AT}
    ] and [one["name"] for one in node.ask("status")["consumers"]] == ["b"]
    assert node.ask("again", "a")["error"].startswith("the consumer a is named no more; name it again")
    node.settings = SETTINGS
    node.crash()
    assert node.connect("consumer a").request() == (wire(0, b"unread"), wire(1, b"meanwhile"))
    assert node.ask("status")["named_no_more"] == [] == node.events("dmq_consumer_gone") and len(node.warnings) == 1


def test_a_consumer_that_is_named_no_more_is_forgotten_when_all_that_it_has_read_has_expired() -> None:
    node = host()
    node.connect().submit(wire(0, expires_at=EXPIRES_AT - 60))
    first = node.connect("consumer a")
    assert first.request() == (wire(0, expires_at=EXPIRES_AT - 60),) and first.request() is None
    node.connect().submit(wire(1))
    node.settings = msgspec.structs.replace(SETTINGS, consumers=("b=unix:b.sock",))
    node.crash()
    node.pass_time(EXPIRES_AT - 60 - node.now.wall_s - 1)
    assert not node.events("dmq_consumer_gone") and b"c a" in node.kept
    node.pass_time(1)
    [gone] = node.events("dmq_consumer_gone")
    assert gone.fields == {"handover": "ended", "recipient": "a"} and gone.reason == reasons.CONSUMER_GONE
    assert [key for key in node.kept if key.endswith(b" a")] == [] == node.ask("status")["named_no_more"]
    node.settings = SETTINGS
    node.crash()
    assert node.connect("consumer a").request() == (wire(1),), "what it has not read, and nothing else, is live"


def test_a_consumer_that_is_named_no_more_and_has_read_nothing_is_forgotten_at_once() -> None:
    node = host()
    node.connect().submit(wire())
    node.settings = msgspec.structs.replace(SETTINGS, consumers=())
    node.crash()
    assert node.warnings == [
        f"the consumer {name} is named no more; 1 message waits for it. Nothing that it has read is live, so it is "
        "forgotten: named again, it gets all that is live"
        for name in "ab"
    ]
    assert [one.fields["recipient"] for one in node.events("dmq_consumer_gone")] == ["a", "b"]
    node.crash()
    assert len(node.warnings) == 2, "said once"


AHEAD = 3 * ANSWERS_MAX + 1


def asks_ahead(client: Client, request: bytes) -> None:
    """Send a request in an SDU so often, all at once."""
    client.send((HEAD.pack(0, n.NUMBER, len(request)) + request) * AHEAD)


def replies(client: Client, request: n.Message, most: int) -> list[bytes]:
    """Return the messages in the replies that the client has got, to so many requests that it has sent already."""
    found = []
    for _ in range(most):
        heard = client.session.say(n.NUMBER, request)
        found += [one.message.messages for one in heard]
        if not heard:
            break
    return [one for messages in found for one in messages or (b"",)]


def test_requests_ahead_of_their_replies_are_all_answered_in_turn() -> None:
    node = host()
    client, named = node.connect(), node.connect("consumer a")
    for one in (client, named):
        asks_ahead(one, bytes.fromhex("8200f4"))
    for one in (client, named):
        assert replies(one, n.MsgRequestMessagesNonBlocking(), AHEAD) == [b""] * AHEAD
    clients = node.connect(), node.connect("consumer b")
    for one in clients:
        asks_ahead(one, bytes.fromhex("8200f5"))
    wires = [wire(number % 3, b"%d" % number) for number in range(ANSWERS_MAX + 4)]
    for one_wire in wires:
        assert node.connect().submit(one_wire) == ACCEPTED
    for one in clients:
        assert replies(one, n.MsgRequestMessagesBlocking(), AHEAD) == wires
    assert len(node.events("dmq_read")[-1].each["number"]) == 1 and node.ask("status")["clients"]["causes"] == {}


def test_of_many_requests_ahead_some_are_answered_at_once_and_others_are_not_held_up() -> None:
    node = host()
    node.settles = False
    client, other = node.connect(), node.connect()
    asks_ahead(client, bytes.fromhex("8200f4"))
    assert len(replies(client, n.MsgRequestMessagesNonBlocking(), AHEAD)) == ANSWERS_MAX
    assert other.request(blocking=False) == ()


def test_the_newest_connection_is_the_consumer() -> None:
    node = host()
    older, newer = node.connect("consumer a"), node.connect("consumer a")
    assert older.request() is None and newer.request() is None
    assert older.is_closed and not newer.is_closed
    node.connect().submit(wire())
    assert newer.messages() == (wire(),) and node.ask("status")["clients"]["broken_off"] == 1


def test_a_consumer_that_ends_in_order_leaves_its_messages_unread_and_none_is_set_aside() -> None:
    node = host()
    node.connect().submit(wire())
    for _ in range(BREAKS_MAX + 1):
        consumer = node.connect("consumer a")
        assert consumer.request() == (wire(),)
        consumer.say(n.NUMBER, n.MsgClientDone())
        consumer.hang_up()
    assert node.ask("status")["consumers"][0] == {"name": "a", "lag": 1, "set_aside": 0, "connected": False}
