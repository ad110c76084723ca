"""A frame that comes in pieces: its cost, the limit of waiting, and that it reads like a whole one."""

from __future__ import annotations

from collections import deque
from math import inf

import pytest
from rigs.session_pair import exchange, item, offer, opened
from rigs.work import allocated, opcodes
from samples.core import ALICE, BOB

from router.core.link.session import MessageRun, Session
from router.core.link.unfinished import Unfinished
from router.core.wire import link_items as link
from router.core.wire.codec import FRAME_BYTES_MAX, frame
from router.core.wire.message import seal_unicast

HEAD = b"\x5a\x00\x10\x00\x00"
"""The head of a frame of a megabyte."""


def opened_for_a_megabyte() -> Session:
    app = Session(offer("app", b"d" * 16), ALICE, dialler=True, peer=BOB.public)
    router = Session(offer(nonce=b"l" * 16, size=4 << 20), BOB, dialler=False, peer=ALICE.public)
    exchange(app, router)
    assert router.is_open
    return router


def test_a_byte_costs_the_same_however_much_came_before_it() -> None:
    """The byte comes after the head of a long frame, and the bytes already there are not copied again."""
    router = opened_for_a_megabyte()
    router.receive(HEAD + b"\x84\x00" + bytes(900_000), 0)
    work = copied = 0
    for _ in range(200):
        copied += allocated(lambda: router.receive(b"x", 0))
        work += opcodes(lambda: router.receive(b"x", 0))
    assert copied < 3 * 900_000, "it grows now and then, by an eighth"
    assert work < 200 * 150


def test_a_frame_in_pieces_is_copied_twice_at_most() -> None:
    router = opened_for_a_megabyte()
    wire = seal_unicast(ALICE, BOB.public, bytes(1_000_000), ttl_s=1, expiry_min=1)
    data = frame(wire)
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    events: list[object] = []
    assert allocated(lambda: deque(map(events.extend, (router.receive(one, 0) for one in pieces)))) < 2.5 * len(data)
    [messages] = events
    assert isinstance(messages, MessageRun)
    [(_, start, end)] = messages.spans
    assert messages.data[start:end] == wire


def test_patience_is_for_one_frame_and_only_while_it_is_waited_for() -> None:
    some = Unfinished(10.0)
    assert some.patience_s == inf and not some
    some.waited(1000)
    some.keep(b"..\x58\x20x", 2, 36)
    assert some and some.patience_s == 10.0
    assert repr(some) == "<the first 3 of at least 34 bytes of a frame>"
    some.waited(4)
    assert some.complete(b"y") is None and some.patience_s == 6.0
    some.waited(7)
    assert some.patience_s == 0.0 and "not complete after 10 s" in some.too_slow().text
    assert some.complete(bytes(40)) == b"\x58\x20xy" + bytes(40) and some.patience_s == inf
    some.keep(b"\x59\x01", 0, 3)
    assert some.patience_s == 10.0


def test_a_session_waits_for_frames_and_for_nothing_else() -> None:
    _, router = opened()
    ping = item(link.Ping(5))
    assert router.unfinished.patience_s == inf
    router.receive(ping + ping[:2], 0)
    assert 0 < router.unfinished.patience_s < inf
    router.receive(ping[2:], 0)
    assert router.unfinished.patience_s == inf


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_head_that_is_cut_short_is_waited_for(cut: int) -> None:
    router = opened_for_a_megabyte()
    assert router.receive(HEAD[:cut], 0) == []
    router.receive(HEAD[cut:], 0)
    assert router.unfinished and len(HEAD) + 1024 < FRAME_BYTES_MAX
