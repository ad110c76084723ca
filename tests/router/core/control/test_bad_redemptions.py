"""Every sentence about an order or a request about invitations that cannot be carried out."""

from __future__ import annotations

from typing import Any

import pytest
from rigs.inviting import ANNA, OTHER, SECRET, House
from rigs.one_router import WALL_S
from test_redeeming import OFFER, answer, core_link, guest

from router.core.control.guests import UNKNOWN_MAX
from router.core.routing.effects import Close
from router.core.wire.reasons import INVITE_NO_ROOM, Reason
from router.core.wire.redemption import Redeemed

OVER = "its time would be over at once; choose a later end, or set the clock of the node right"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"secret": SECRET}, "an invitation with this secret exists; make another one"),
        ({"rights": ["fly"]}, "fly is no right; there are join, store, relay, why"),
        ({"uses": 0}, "an invitation has 1 to 1000 uses, not 0"),
        ({"uses": 1001}, "an invitation has 1 to 1000 uses, not 1001"),
        ({"until_s": WALL_S}, OVER),
        ({"grant_until_s": 1}, OVER),
    ],
)
def test_an_invitation_that_cannot_be_made_says_why(more: dict[str, Any], said: str) -> None:
    one = House()
    one.invite()
    assert one.invite(**({"secret": OTHER} | more)) == {"error": said}


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("", 'no invitation has an id that begins with ""; `router invite list` shows them'),
        ("xyz", 'no invitation has an id that begins with "xyz"; `router invite list` shows them'),
    ],
)
def test_one_that_is_not_there_is_not_revoked(prefix: str, said: str) -> None:
    one = House()
    one.invite()
    assert one.order("uninvite", prefix) == {"error": said}


def test_a_guest_that_is_just_written_is_not_removed() -> None:
    one = House()
    one.invite()
    one.redeem(one.guest(ANNA), ANNA)
    one.pass_time(1)
    assert one.looks()
    said = {"error": "the guest is just being written into router.toml; run the command again"}
    assert one.order("expel", ANNA.public.hex()) == said


def test_who_guesses_three_times_is_told_so_and_cut_off() -> None:
    one = House()
    one.invite()
    link = one.guest(ANNA)
    for number in range(UNKNOWN_MAX):
        one.redeem(link, ANNA, bytes((number,)) * 16)
    [close] = [effect for effect in one.done if isinstance(effect, Close)]
    assert (close.reason, close.text) == (
        Reason.NOT_AUTHORISED,
        "three secrets of invitations that this router has not made; ask its operator for another link",
    )


AGAIN = "this node asks again"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            INVITE_NO_ROOM,
            "this router has as many neighbours as its operator allows; its operator can raise limits.guests_max or "
            f"remove neighbours, and {AGAIN}",
        ),
        (Reason.DISK_FULL, f"the disk of this node is nearly full; {AGAIN}"),
        (Reason.CLOCK_DOUBTED, f"clocks disagree about whether the message is valid now; {AGAIN}"),
    ],
)
def test_who_is_not_let_in_yet_is_told_why(reason: Reason, said: str) -> None:
    one = guest()
    link = core_link(one)
    one.told(link)
    answer(one, link, Redeemed(OFFER.secret, int(reason)))
    assert one.router.redeeming.problem_of(OFFER.id) == f"it cannot let us in yet: {said}"


@pytest.mark.parametrize(
    ("reason", "text", "offset_ns", "said"),
    [
        (
            Reason.EXPIRY_PASSED, "", 3 * 3600 * 10**9,
            "it cannot believe the time of our request: its clock is 3.0 hours ahead of ours; set the wrong one",
        ),
        (
            Reason.EXPIRY_TOO_FAR, "", -3 * 3600 * 10**9,
            "it cannot believe the time of our request: its clock is 3.0 hours behind ours; set the wrong one",
        ),
        (
            Reason.UNSUPPORTED, "", 0,
            "its router does not know invitations; its operator installs a newer version",
        ),
        (Reason.NOT_AUTHORISED, "strangers ask nothing", 0, "it refused our request: strangers ask nothing"),
        (Reason.MALFORMED, "", 0, f"it refused our request: {Reason.MALFORMED.clause}"),
    ],
)  # fmt: skip
def test_a_request_that_was_refused_unread_says_why(reason: Reason, text: str, offset_ns: int, said: str) -> None:
    one = guest()
    link = one.router.links.get(core_link(one))
    assert link is not None
    link.offset_ns = offset_ns
    one.router.redeeming.refused(link, link.outgoing.sent, reason, text)
    assert one.router.redeeming.problem_of(OFFER.id) == said
