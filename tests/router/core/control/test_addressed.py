"""Unicasts to the router itself: refused by their signer, their first bytes and their size, undecoded."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from rigs.work import allocated, opcodes
from samples.core import ALICE, GROUP, MULTICASTS

from router.core.link.session import MessageRun
from router.core.neighbours.directory import Neighbour
from router.core.routing.intake import carried, read_messages
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.codec import frame, split_frames
from router.core.wire.control import CONTROL_BYTES_MAX, Carried, Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

EXPIRY = expiry_min(WALL_S + 600)
PEER, STRANGER = SigningKey(b"p" * 32), SigningKey(b"s" * 32)
WIDE = b"\x9a\x00\x0f\x00\x00" + b"\xa0" * 0xF0000
"""An array of nearly a million empty maps, which costs a decoder a second or two and a hundred megabytes."""
MORE_MAX = 1_500
"""Number of instructions by which a refused request may cost more than an honest one."""


def bring(source: SigningKey, body: bytes, role: str = "router", asked: bool = False) -> tuple[Reason | None, int]:
    """Return the refusal of one such unicast, and the effort of judging it."""
    one = OneRouter(Neighbour(PEER.public), strangers=True)
    link = one.link(source.public, role=role, messages=64)
    if asked:
        assert one.router.ask(source.public, Inquiry("why", "ab 1"), one.now())
    one.cycle()
    one.settled()
    wire = seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY)

    def judged() -> None:
        one.bring(link, wire)
        one.cycle()

    effort = opcodes(judged)
    [(_, refusals)] = one.settled().values()
    return refusals[0][1] if refusals else None, effort


def effort_of_an_honest_one() -> int:
    reason, effort = bring(PEER, encode_control(Join(GROUP.public, False)))
    assert reason is None
    return effort


@pytest.mark.parametrize("kind", range(9))
@pytest.mark.parametrize(("source", "role"), [(ALICE, "app"), (PEER, "router"), (STRANGER, "router")])
def test_a_megabyte_for_the_router_costs_next_to_nothing(source: SigningKey, role: str, kind: int) -> None:
    reason, effort = bring(source, bytes((0x82, kind)) + WIDE, role)
    assert reason is not None and not reason.later
    assert effort < effort_of_an_honest_one() + MORE_MAX


def test_a_megabyte_is_no_answer_even_where_one_is_awaited() -> None:
    assert bring(PEER, encode_inquiry(Answer(bytes(1 << 20))), asked=True)[0] is Reason.TOO_LARGE
    assert bring(PEER, encode_inquiry(Answer(bytes(1 << 16))), asked=True)[0] is None
    assert bring(PEER, encode_inquiry(Answer(b"{}")))[0] is Reason.NOT_AUTHORISED


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 5, 6, 7])
def test_a_small_body_of_many_items_costs_no_more(kind: int) -> None:
    count = CONTROL_BYTES_MAX - 4
    reason, effort = bring(PEER, bytes((0x82, kind, 0x98, count)) + b"\xa0" * count)
    assert reason in (Reason.MALFORMED, Reason.NOT_AUTHORISED)
    assert effort < effort_of_an_honest_one() + MORE_MAX


def test_strangers_have_nothing_carried() -> None:
    assert bring(STRANGER, encode_control(Carried(MULTICASTS[1])))[0] is Reason.NOT_AUTHORISED
    assert bring(STRANGER, encode_control(Join(GROUP.public, False)))[0] is None  # silence (R-C15)


def test_many_carried_messages_of_one_read_are_not_copied_over_and_over() -> None:
    """A carried message is judged in place, however many bytes of the read come before it."""
    body = encode_control(Carried(seal_multicast(GROUP, bytes(60_000), ttl_s=1, expiry_min=EXPIRY)))
    wire = seal_unicast(PEER, ME.public, body, ttl_s=0, expiry_min=EXPIRY)
    data = frame(wire) * 20
    arrived = read_messages(1, MessageRun(1, data, split_frames(data)[0]))
    assert allocated(lambda: [carried(arrived, row) for row in arrived.rows]) < len(data) // 10
