"""Nodes that are killed while guests redeem, and while the configuration is written, with the shipped host and
guests."""

from __future__ import annotations

import json
import logging

import pytest

from router.core.control.redeeming import UnansweredInvitation
from router.core.neighbours.invitations import INVITED, WRITTEN, from_row
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.crypto import digest
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from world.node import Node
from world.world import World

GUESTS, USES, DAY_S = 8, 3, 86_400
RIGHTS = ("join", "relay", "store")
QUICK, LONG, EACH = 20, 1_000, 20


def invite(world: World, core: Node, secret: bytes) -> UnansweredInvitation:
    """Have the core's operator make an invitation with `USES` uses; return it as its guests have it."""
    until_s = core.clocks.wall_ns() // 10**9 + DAY_S
    said = {"id": digest(secret).hex(), "rights": RIGHTS, "uses": USES, "until_s": until_s}
    operator = world.app(core, "operator", durable=False)
    body = encode_inquiry(Inquiry("invite", json.dumps(said)))
    expiry = expiry_min(world.time.now().wall_s + 60)
    operator.put(seal_unicast(operator.key, core.address, body, ttl_s=0, expiry_min=expiry))
    world.run_until_quiet()
    return UnansweredInvitation(digest(secret), core.address, secret, until_s)


def play(seed: int) -> None:
    with World(seed) as world:
        core = world.node("core")
        offer = invite(world, core, world.time.random.randbytes(16))
        guests = [world.node(f"guest {n}") for n in range(GUESTS)]
        for one in guests:
            world.link(one, core, uplink=True, known=False)
            one.given(offer)
        for _ in range(world.time.random.randrange(1, 8)):
            world.run(world.time.random.random())
            if (victim := world.time.random.choice((core, core, *guests))).alive:
                world.crash(victim, world.time.random.random())
        world.run(3)
        world.run_until_quiet()
        told_yes = {bytes(one.address) for one in guests if one.let_in.get(offer.id)}
        assert {one.name for one in guests if offer.id not in one.let_in} == set(), "everybody is answered"
        kept = from_row(offer.id, core.disk.book[INVITED + offer.id])
        assert {bytes(key) for key in kept.guests} == told_yes and len(told_yes) == USES
        assert set(core.neighbours) == told_yes, "the file has what was granted"
        assert all(one.state == WRITTEN for one in kept.guests.values())
        assert all(set(one.grants) == set(RIGHTS) for one in core.neighbours.values())
        for key in told_yes:
            assert core.router.directory.grants(key) == set(RIGHTS)


@pytest.mark.parametrize(
    "first", [n if n < QUICK else pytest.param(n, marks=pytest.mark.long) for n in range(0, LONG, EACH)]
)
def test_never_a_fourth_guest_and_nobody_who_was_told_yes_is_turned_away(
    first: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "router")
    for seed in range(first, first + EACH):
        play(seed)


def test_what_guests_were_let_in_for_works_and_a_removed_one_stays_removed() -> None:
    with World(3) as world:
        core = world.node("core")
        offer = invite(world, core, b"s" * 16)
        guest = world.node("guest")
        world.link(guest, core, uplink=True, known=False)
        guest.given(offer)
        group = world.group("friends")
        reader, writer = world.app(guest, "reader"), world.app(core, "writer")
        reader.join(group)
        world.run(5)
        world.run_until_quiet()
        [said] = writer.publish(group)
        world.run_until_quiet()
        assert said in reader.diary.handled
        core.reconfigure([])
        world.run(1)
        world.crash(core, 0.1)
        world.run(5)
        assert not core.neighbours and not core.router.directory.is_known(guest.address)
