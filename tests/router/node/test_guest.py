"""The node as a guest: its answers are recorded however long the disk refuses, and reported as sentences."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio
import trio.testing
from rigs.one_router import OneRouter
from samples.invitations import CORE, invitation
from trio.testing import MockClock

from router.core.routing.effects import InvitationAnswered, TermsHeard
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import (
    INVITE_EXPIRED,
    INVITE_REMOVED,
    INVITE_REVOKED,
    INVITE_UNKNOWN,
    INVITE_USED_UP,
    Reason,
)
from router.node.connection import TURNED_AWAY
from router.node.guest import InvitationFiles
from router.settings import keyring, received
from router.settings.home import Home

NOW_S = 1_790_000_040
GIVEN = invitation(until_s=NOW_S + 3600)
UNTIL_S = 4_000_000_020  # far ahead of the clock of the machine


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    received.keep(made, GIVEN)
    return made


def problems(guest: InvitationFiles, dialled: dict[bytes, str]) -> list[str]:
    idle = OneRouter().router.redeeming
    return [one["problem"] for one in guest.rows(idle, dialled)]


async def test_it_offers_what_waits_and_tells_what_became_of_it(home: Home) -> None:
    guest = InvitationFiles(home, "laptop")
    [offer] = guest.offers()
    assert (offer.id, offer.inviter, offer.secret, offer.name) == (GIVEN.id, CORE.public, GIVEN.secret, "laptop")
    assert offer.until_s == NOW_S + 3600
    assert problems(guest, {}) == ["its invitation is not answered yet"]
    assert problems(guest, {CORE.public: "no answer"}) == ["its invitation is not answered yet: no answer"]
    await guest.answered(InvitationAnswered(GIVEN.id, None, ("join",), expiry_min(UNTIL_S)))
    assert problems(guest, {}) == [""] and not guest.offers()
    kept = received.find(home, GIVEN.id)
    assert kept is not None and (kept.grant_until_s, kept.rights, kept.group) == (UNTIL_S, ("join",), "friends")


async def test_who_is_turned_away_hears_of_the_block_as_far_as_it_was_told(home: Home) -> None:
    guest = InvitationFiles(home)
    turned_away: dict[bytes, str] = {CORE.public: TURNED_AWAY}
    guest.offers()
    waits = "its invitation is not answered yet: it does not let us in"
    remedy = "its operator has blocked this node, or it knows of no invitation any more; ask for `router peer unblock`"
    [said] = problems(guest, turned_away)
    assert said == f"{waits}, not even to ask, and does not say why: {remedy} there, or for a new invitation"
    guest.heard(TermsHeard(CORE.public, int(Reason.BLOCKED), (), 0))
    blocked = f"{waits}: its operator has blocked this node; ask for `router peer unblock` there"
    assert problems(guest, turned_away) == [blocked] and guest.has_heard_block(CORE.public)
    guest.heard(TermsHeard(CORE.public, None, ("join",), 0))
    assert problems(guest, turned_away) == [said] and not guest.has_heard_block(CORE.public)


async def test_a_damaged_link_is_said_and_taken_again(home: Home) -> None:
    path = home.path / "invitations" / GIVEN.id.hex()
    path.write_text(path.read_text().replace(GIVEN.text()[-6:], "AAAAAA"))
    guest = InvitationFiles(home)
    assert not guest.offers()
    said = "the link that is kept for it is damaged; take the invitation again"
    assert problems(guest, {}) == [f"its invitation is not answered yet: {said}"]
    assert received.keep(home, GIVEN).invitation() == GIVEN and len(guest.offers()) == 1
    assert problems(guest, {}) == ["its invitation is not answered yet"]


async def test_a_refusal_is_kept_and_logged_with_its_sentence(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    guest = InvitationFiles(home)
    guest.offers()
    with caplog.at_level(logging.WARNING):
        await guest.answered(InvitationAnswered(GIVEN.id, 194, (), 0))
    assert "refused the invitation" in caplog.text and not guest.offers() and not keyring.groups(home)
    assert problems(guest, {}) == [
        "it refused our invitation: all uses of the invitation are taken by other guests; ask its operator for a new "
        "invitation"
    ]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (INVITE_UNKNOWN, "this router has made no such invitation"),
        (INVITE_EXPIRED, "the invitation's time has passed"),
        (INVITE_USED_UP, "all uses of the invitation are taken by other guests"),
        (INVITE_REVOKED, "the operator has revoked the invitation"),
        (INVITE_REMOVED, "the operator has removed this guest since it was let in"),
        (Reason(999), "a service ended it for a reason of its own, which this node has no words for"),
    ],
)
async def test_each_refusal_has_its_sentence(home: Home, reason: Reason, said: str) -> None:
    guest = InvitationFiles(home)
    guest.offers()
    await guest.answered(InvitationAnswered(GIVEN.id, int(reason), (), 0))
    assert problems(guest, {}) == [f"it refused our invitation: {said}; ask its operator for a new invitation"]


async def test_a_disk_that_refuses_is_tried_again_and_said_once(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    guest, tries = InvitationFiles(home), 0
    guest.offers()
    write = received.answered

    def full(*args: object) -> object:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise OSError(28, "No space left on device")
        return write(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(received, "answered", full)
    await guest.answered(InvitationAnswered(GIVEN.id, None, ("join",), 0))
    assert list(keyring.groups(home)) == ["friends"] and not guest.offers()
    assert caplog.text.count("No space left on device") == 1


async def test_what_its_router_says_of_our_rights_is_written_after_the_answer_and_the_newest_counts(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    guest = InvitationFiles(home)
    guest.offers()
    assert not guest.inviters()
    removed = TermsHeard(CORE.public, int(INVITE_REMOVED), (), 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(guest.answered, InvitationAnswered(GIVEN.id, None, ("join",), 0))
        await trio.testing.wait_all_tasks_blocked()
        for terms in (TermsHeard(CORE.public, None, ("join", "why"), 0), removed):
            guest.heard(terms)
            nursery.start_soon(guest.write_terms)
    said = "it gives us no rights any more: the operator has removed this guest since it was let in; ask its operator"
    assert problems(guest, {}) == [f"{said} for a new invitation"] and said in caplog.text
    guest.offers()
    assert guest.inviters() == {CORE.public}
    guest.heard(TermsHeard(CORE.public, None, ("join", "why"), expiry_min(UNTIL_S)))
    await guest.write_terms()
    kept = received.find(home, GIVEN.id)
    assert kept is not None and (kept.rights, kept.grant_until_s, kept.ended) == (("join", "why"), UNTIL_S, "")
