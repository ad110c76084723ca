"""A neighbour announces the longest frame that it takes: longer messages are refused here, and never sent to it."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from rigs.session_pair import exchange, offer
from samples.core import ALICE, BOB, GROUP

from router.core.link.session import MessageRun, Session
from router.core.wire.codec import frame, head
from router.core.wire.control import Join, Report, decode_control, encode_control
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, open_message, seal_multicast, seal_unicast, with_via
from router.core.wire.reasons import Reason

EXPIRY = expiry_min(WALL_S + 3600)
FRAME_BYTES = 600


def house() -> tuple[OneRouter, int, int]:
    """Return a router on which Alice publishes, and Bob, who takes short frames only, is in the group."""
    one = OneRouter()
    alice, bob = one.link(ALICE.public), one.link(BOB.public, messages=100, size=1 << 20, frame_bytes=FRAME_BYTES)
    join = encode_control(Join(GROUP.public, False))
    one.bring(bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.router.settled(bob, 1, one.now())
    one.cycle()
    one.told(bob), one.settled()
    one.events.clear()
    return one, alice, bob


def news(size: int, *, ttl_s: int = 600) -> bytes:
    return seal_multicast(GROUP, bytes(size), ttl_s=ttl_s, expiry_min=EXPIRY)


def test_what_is_longer_ends_refused_and_the_rest_goes_on() -> None:
    one, alice, bob = house()
    wires = [news(10), news(1000), news(1001), news(11), news(1002)]
    one.bring(alice, *wires)
    one.cycle()
    assert one.handed(bob) == [wires[0], wires[3]]
    one.router.settled(bob, 3, one.now())
    one.cycle()
    ended = [(state, runs) for state, runs in one.outward() if state != "forwarded"]
    assert ended == [("refused", ((2, 2),)), ("refused", ((5, 1),)), ("delivered", ((1, 1),)), ("delivered", ((4, 1),))]
    assert one.settled() == {alice: (5, [])} and not one.disk.owed
    one.bring(alice, news(12))
    one.cycle()
    assert one.handed(bob) == [news(12)]


def test_a_frame_of_just_that_length_goes_out() -> None:
    one, alice, bob = house()
    longest = next(wire for size in range(1000) if len(wire := news(size)) == FRAME_BYTES)
    one.bring(alice, longest, news(len(open_message(longest).body) + 1))
    one.cycle()
    assert one.handed(bob) == [longest]


def test_its_source_hears_of_a_unicast_that_is_too_long() -> None:
    one, alice, bob = house()
    wire = seal_unicast(ALICE, BOB.public, bytes(1000), ttl_s=600, expiry_min=EXPIRY)
    one.bring(alice, wire)
    one.cycle()
    one.cycle()
    assert one.handed(bob) == []
    [report] = [decode_control(open_message(one_told).body) for one_told in one.told(alice)]
    assert report == Report(message_id(wire), BOB.public, "refused", Reason.TOO_LARGE, WALL_S)


def test_what_may_not_wait_is_not_taken_for_it() -> None:
    one, alice, bob = house()
    one.bring(alice, news(1000, ttl_s=0))
    one.cycle()
    assert one.handed(bob) == []
    assert [reason for _, reason, _ in one.settled()[alice][1]] == [Reason.RECIPIENT_OFFLINE_TTL0]


def test_an_app_takes_what_its_sender_could_just_send_and_the_router_named_itself_in() -> None:
    """A VIA makes a message longer on its last hop, which must not close the app's link."""
    app = Session(offer("app", b"d" * 16, size=4 << 20), ALICE, dialler=True, peer=BOB.public)
    router = Session(offer(nonce=b"l" * 16, size=4 << 20), BOB, dialler=False, peer=ALICE.public)
    exchange(app, router)
    limit = 1_052_672
    assert router.machine.bytes_max == limit
    room = limit - len(news(1 << 20)) + (1 << 20)
    wire = news(room)
    assert len(wire) == limit and frame(wire).startswith(head(limit))
    [messages] = app.receive(frame(with_via(wire, BOB.public)), 0)
    assert isinstance(messages, MessageRun)
