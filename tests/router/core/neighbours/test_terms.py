"""The terms sent to a guest: on request, at each change while its link is up, and why it has no rights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rigs.inviting import ANNA, BERTA, DAY_S, HOUR_S, OTHER, SECRET, House
from rigs.one_router import ME, WALL_S
from samples.core import ALICE

from router.core.control.guests import FileWritten
from router.core.neighbours.directory import Neighbour, Standing
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import INVITE_ENDED, INVITE_REMOVED, Reason
from router.core.wire.redemption import AskTerms, Terms, decode_redemption, encode_redemption, is_redemption

END = expiry_min(WALL_S + HOUR_S)


def heard(one: House, link: int) -> list[Terms]:
    """Return the terms sent to the guest since the last call."""
    found = [decode_redemption(body) for body in one.bodies(link) if is_redemption(body)]
    return [said for said in found if isinstance(said, Terms)]


def ask(one: House, link: int, key: SigningKey = ANNA) -> list[Terms]:
    body = encode_redemption(AskTerms())
    one.bring(link, seal_unicast(key, ME.public, body, ttl_s=0, expiry_min=one.expiry()))
    one.cycle()
    return heard(one, link)


def guest_of(one: House, secret: bytes = SECRET, **more: object) -> int:
    """Let Anna in; return her link, on which she has asked for her terms."""
    one.invite(secret, **more)
    one.redeem(one.guest(ANNA), ANNA, secret)
    one.closed()
    link = one.guest(ANNA)
    assert ask(one, link)
    return link


def test_a_guest_is_told_its_rights_and_their_first_end() -> None:
    one = House(strangers=True)
    assert ask(one, one.guest(ANNA)) == [Terms(int(Reason.NOT_AUTHORISED))], "it never was a guest"
    guest_of(one)
    assert ask(one, one.guest(ANNA)) == [Terms(None, ("join", "store"))]
    one.invite(OTHER, rights=["why"], grant_until_s=WALL_S + HOUR_S)
    link = one.guest(ANNA)
    one.redeem(link, ANNA, OTHER)
    assert ask(one, link) == [Terms(None, ("join", "store", "why"), END)]
    assert ask(one, link) == [Terms(None, ("join", "store", "why"), END)], "each question is answered"


@pytest.mark.parametrize("strangers", [False, True])
def test_the_end_of_its_rights_is_told_at_that_moment_and_at_the_next_link(strangers: bool) -> None:
    one = House(strangers=strangers)
    link = guest_of(one, grant_until_s=WALL_S + HOUR_S)  # a whole minute, which the message rounds to
    one.pass_time(HOUR_S - 1)
    assert heard(one, link) == []
    one.pass_time(1)
    assert heard(one, link) == [Terms(int(INVITE_ENDED), (), END)] and one.closed(), "told before its link is closed"
    again = one.guest(ANNA)
    assert one.standing(ANNA) is (Standing.STRANGER if strangers else None) or one.router.directory.is_inviting
    if one.standing(ANNA) is not None:
        assert ask(one, again) == [Terms(int(INVITE_ENDED), (), END)]


def test_the_end_that_stands_in_the_file_is_told_at_that_moment_and_at_the_door() -> None:
    known = Neighbour(ANNA.public, "anna", frozenset({"join"}), until_s=WALL_S + HOUR_S)
    one = House(known)
    link = one.guest(ANNA)
    assert ask(one, link) == [Terms(None, ("join",), END)]
    assert one.router.directory.ended_s(ANNA.public) == 0
    one.pass_time(HOUR_S)
    assert heard(one, link) == [Terms(int(INVITE_ENDED), (), END)]
    assert one.router.directory.ended_s(ANNA.public) == WALL_S + HOUR_S


def remove_from_file(one: House) -> None:
    one.router.guests.file_written(FileWritten((ANNA.public,), (), (Neighbour(ANNA.public),)), one.now())
    one.cycle()
    one.router.neighbours_changed([], one.now())
    one.cycle()


def expel(one: House) -> None:
    body = encode_inquiry(Inquiry("expel", ANNA.public.hex()))
    one.bring(one.operator, seal_unicast(ALICE, ME.public, body, ttl_s=0, expiry_min=one.expiry()))
    one.cycle()


def block(one: House) -> None:
    one.router.neighbours_changed([Neighbour(ANNA.public, blocked=True)], one.now())
    one.cycle()


@pytest.mark.parametrize(
    ("act", "reason"), [(remove_from_file, INVITE_REMOVED), (expel, INVITE_REMOVED), (block, Reason.BLOCKED)]
)
def test_who_is_removed_or_blocked_is_told_why(act: Callable[[House], None], reason: Reason) -> None:
    one = House(strangers=True)
    link = guest_of(one)
    act(one)
    assert heard(one, link)[-1] == Terms(int(reason)) and one.closed()
    again = one.guest(ANNA)
    if act is not block:
        assert ask(one, again) == [Terms(int(reason))], "as a stranger, too"
    assert one.standing(ANNA) is (None if act is block else Standing.STRANGER)


def test_a_change_of_rights_is_told_once_and_to_whom_it_concerns_only() -> None:
    one = House(Neighbour(ANNA.public, grants=frozenset({"join", "why"})), Neighbour(BERTA.public))
    anna, berta = one.guest(ANNA), one.guest(BERTA)
    ask(one, anna)
    assert ask(one, berta, BERTA) == [Terms(int(Reason.NOT_AUTHORISED))]
    for _ in range(2):
        one.router.neighbours_changed(
            [Neighbour(ANNA.public, grants=frozenset({"join"})), Neighbour(BERTA.public)], one.now()
        )
        one.cycle()
    said = one.done.copy()
    assert heard(one, anna) == [Terms(None, ("join",))]
    one.done = said
    assert heard(one, berta) == [] and not one.closed()


def test_who_does_not_ask_is_told_nothing_of_it() -> None:
    one = House()
    one.invite(grant_until_s=WALL_S + HOUR_S)
    one.redeem(one.guest(ANNA), ANNA)
    link = one.guest(ANNA)
    one.pass_time(DAY_S)
    assert heard(one, link) == []
