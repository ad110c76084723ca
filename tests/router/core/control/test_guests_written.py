"""Grants of guests are written into the configuration in two steps; after that the file alone decides."""

from __future__ import annotations

import pytest
from rigs.inviting import ANNA, BERTA, DAY_S, HOUR_S, OTHER, SECRET, House, no, yes
from rigs.one_router import WALL_S

from router.core.control.guests import WRITE_AGAIN_S, FileLooked, FileWritten
from router.core.neighbours.directory import CONFIG, INVITED, Neighbour, Standing
from router.core.routing.effects import GrantToWrite, WriteGuests
from router.core.wire.crypto import SigningKey, digest
from router.core.wire.reasons import INVITE_REMOVED, INVITE_REVOKED

FILE, CHANGED = b"f" * 32, b"c" * 32
RIGHTS = frozenset(("join", "store"))


def grant(key: SigningKey, name: str = "", rights: frozenset[str] = RIGHTS, until_s: int = 0) -> GrantToWrite:
    return GrantToWrite(key.public, name, rights, until_s)


def block(key: SigningKey, *rights: str, **more: object) -> Neighbour:
    return Neighbour(key.public, grants=frozenset(rights or RIGHTS), **more)  # type: ignore[arg-type]


def inviting(*guests: SigningKey, known: tuple[Neighbour, ...] = (), grant_until_s: int = 0) -> House:
    one = House(*known)
    one.invite(uses=8, grant_until_s=grant_until_s)
    for each in guests:
        one.redeem(one.guest(each), each)
    one.closed()
    return one


def look(one: House, digest: bytes = FILE, problem: str = "") -> list[WriteGuests]:
    one.pass_time(1)
    assert one.looks()
    one.router.guests.looked(FileLooked(digest, problem), one.now())
    one.cycle()
    return one.writes()


def written(one: House, found: FileWritten) -> None:
    one.router.guests.file_written(found, one.now())
    one.cycle()


def learned(one: House, key: SigningKey) -> str | None:
    known = one.router.directory.neighbours.get(key.public)
    return known.learned if known else None


def told(**more: object) -> dict[str, object]:
    """Return the part of the status about guests."""
    return {"unwritten": 0, "problem": "", "beside": 0, "full": None} | more


def in_file(one: House) -> list[bool]:
    return [guest["written"] for row in one.order("invites") for guest in row["guests"]]


def test_all_owed_grants_are_written_at_once_and_then_the_file_decides() -> None:
    one = inviting(ANNA, BERTA)
    assert (learned(one, ANNA), one.router.guests.facts()) == (INVITED, told(unwritten=2))
    link = one.guest(ANNA)
    assert look(one) == [WriteGuests(FILE, (grant(ANNA), grant(BERTA)))]
    one.pass_time(WRITE_AGAIN_S)
    assert not one.looks(), "it is being written"
    written(one, FileWritten((ANNA.public, BERTA.public), (), (block(ANNA), block(BERTA))))
    assert (learned(one, ANNA), one.standing(ANNA), one.closed()) == (CONFIG, Standing.CLIENT, [])
    assert link and in_file(one) == [True, True]
    changes = [each["change"] for each in one.invited()]
    assert changes == ["made", "redeemed", "redeemed", "written", "written"]
    one.pass_time(WRITE_AGAIN_S)
    assert not one.looks()
    one.router.neighbours_changed([block(BERTA)], one.now())
    one.cycle()
    assert one.closed() and learned(one, ANNA) is None, "removed from the file it stays removed"
    assert one.redeem(one.guest(ANNA), ANNA) == [no(INVITE_REMOVED)]
    assert one.redeem(one.guest(BERTA), BERTA) == [yes("join", "store")], "the same answer from the file"


@pytest.mark.parametrize(("at_start", "owed"), [(FILE, True), (CHANGED, False)])
def test_a_crash_while_the_file_changes(at_start: bytes, owed: bool) -> None:
    one = inviting(ANNA)
    assert look(one)
    restarted = House(disk=one.disk)
    restarted.router.guests.started(at_start, restarted.now())
    restarted.cycle()
    assert (learned(restarted, ANNA) == INVITED) is owed
    restarted.pass_time(1)
    assert restarted.looks() is owed
    again = House(disk=restarted.disk)
    assert (learned(again, ANNA) == INVITED) is owed


def test_a_file_that_cannot_be_written_is_told_and_tried_again() -> None:
    one = inviting(ANNA)
    assert look(one, problem="it is read-only") == []
    assert one.router.guests.facts() == told(unwritten=1, problem="it is read-only")
    one.pass_time(WRITE_AGAIN_S - 1)
    assert not one.looks() and learned(one, ANNA) == INVITED, "it goes on counting from the store"
    assert look(one)
    written(one, FileWritten(problem="the disk is full"))
    restarted = House(disk=one.disk)
    restarted.router.guests.started(CHANGED, restarted.now())
    assert learned(restarted, ANNA) == INVITED, "what was begun and failed is owed, whatever the file is later"
    one.pass_time(WRITE_AGAIN_S)
    one.looks()
    one.router.guests.looked(FileLooked(CHANGED), one.now())
    one.cycle()
    [write] = one.writes()
    assert write.file == CHANGED
    written(one, FileWritten(is_other=True))
    assert look(one) and one.router.guests.problem == "", "somebody else changed it: at once again"


def test_a_guest_that_comes_while_the_file_is_written_is_written_next() -> None:
    one = inviting(ANNA)
    assert look(one)
    one.redeem(one.guest(BERTA), BERTA)
    written(one, FileWritten((ANNA.public,), (), (block(ANNA),)))
    assert look(one, CHANGED) == [WriteGuests(CHANGED, (grant(BERTA),))]


def test_a_grant_that_does_not_fit_its_block_counts_to_its_end_or_the_blocks_removal() -> None:
    for is_removed in (False, True):
        one = inviting(ANNA, known=(block(ANNA, "why"),), grant_until_s=WALL_S + HOUR_S)
        assert look(one) == [WriteGuests(FILE, (grant(ANNA, until_s=WALL_S + HOUR_S),))]
        written(one, FileWritten((), (ANNA.public,), (block(ANNA, "why"),)))
        assert one.router.directory.grants(ANNA.public) == RIGHTS | {"why"}
        one.pass_time(WRITE_AGAIN_S)
        assert not one.looks() and one.router.guests.facts() == told(beside=1)
        restarted = House(*(() if is_removed else (block(ANNA, "why"),)), disk=one.disk)
        restarted.router.guests.started(CHANGED, restarted.now())
        restarted.cycle()
        assert (restarted.router.directory.grants(ANNA.public) == RIGHTS | {"why"}) is not is_removed
        one.pass_time(HOUR_S)
        assert one.router.directory.grants(ANNA.public) == {"why"}


@pytest.mark.parametrize("blocked", [False, True])
def test_an_operator_who_removes_or_blocks_the_key_of_a_grant_not_written_yet_takes_it_away(blocked: bool) -> None:
    one = inviting(ANNA, known=(block(ANNA, "why"),))
    one.router.neighbours_changed([block(ANNA, blocked=True)] if blocked else [], one.now())
    one.cycle()
    assert one.router.directory.grants(ANNA.public) == frozenset() and in_file(one) == [True]
    one.pass_time(WRITE_AGAIN_S)
    assert not one.looks()


def test_a_key_with_several_invitations_is_written_with_all_of_them() -> None:
    one = inviting(ANNA)
    one.invite(OTHER, rights=["why"], until_s=WALL_S + DAY_S)
    one.redeem(one.guest(ANNA), ANNA, OTHER)
    assert look(one) == [WriteGuests(FILE, (grant(ANNA), grant(ANNA, rights=frozenset({"why"}))))]
    written(one, FileWritten((ANNA.public,), (), (block(ANNA, "join", "store", "why"),)))
    assert in_file(one) == [True, True] and one.redeem(one.guest(ANNA), ANNA, SECRET)[0].reason is None


def test_a_blocked_guest_counts_apart_when_its_invitation_is_revoked() -> None:
    one = inviting(ANNA, BERTA)
    one.router.neighbours_changed([Neighbour(ANNA.public, blocked=True)], one.now())
    one.cycle()
    id = digest(SECRET).hex()
    assert one.order("uninvite", id) == {"revoked": id, "guests": 1, "blocked": 1, "removed": []}


def test_an_invitation_is_revoked_with_its_guests_also_those_not_written_yet() -> None:
    one = inviting(ANNA, BERTA)
    link, id = one.guest(ANNA), digest(SECRET).hex()
    assert look(one)
    assert "run the command again" in one.order("uninvite", f"{id} guests")["error"], "the file is being written"
    written(one, FileWritten(problem="the disk is full"))
    removed = [ANNA.public.hex(), BERTA.public.hex()]
    assert one.order("uninvite", f"{id} guests") == {"revoked": id, "guests": 2, "blocked": 0, "removed": removed}
    assert one.closed()[0][0] == link and learned(one, ANNA) is None is learned(one, BERTA)
    assert one.redeem(one.guest(ANNA), ANNA) == [no(INVITE_REVOKED)]
    one.pass_time(WRITE_AGAIN_S)
    assert not one.looks()


def test_a_guest_that_is_not_in_the_file_is_expelled_at_once_and_for_good() -> None:
    one = inviting(ANNA, BERTA)
    link = one.guest(ANNA)
    assert look(one)
    assert "run the command again" in one.order("expel", ANNA.public.hex())["error"], "the file is being written"
    written(one, FileWritten(problem="it is read-only"))
    assert one.order("expel", ANNA.public.hex()) == {"expelled": ANNA.public.hex(), "rights": ["join", "store"]}
    assert one.closed() == [(link, "shutdown")] and learned(one, ANNA) is None
    assert learned(one, BERTA) == INVITED and one.router.guests.facts()["unwritten"] == 1
    for house in (one, House(disk=one.disk)):
        assert house.redeem(house.guest(ANNA), ANNA) == [no(INVITE_REMOVED)], "and no restart brings it back"
        assert house.standing(ANNA) is Standing.STRANGER
    assert one.order("expel", ANNA.public.hex())["rights"] == [], "it has none any more"
    assert "error" in one.order("expel", "zz")
