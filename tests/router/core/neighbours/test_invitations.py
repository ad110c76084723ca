"""Invitations: each use lets in one key, and a grant is in force from here until the file has it, or had it."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from router.core.neighbours.invitations import (
    BEGUN,
    INVITATIONS_MAX,
    INVITED,
    KEEP_S,
    USES_MAX,
    Guest,
    Invitations,
    IssuedInvitation,
    from_row,
)
from router.core.wire.crypto import PublicKey, SigningKey, digest
from router.core.wire.reasons import (
    INVITE_EXPIRED,
    INVITE_NO_ROOM,
    INVITE_REVOKED,
    INVITE_UNKNOWN,
    INVITE_USED_UP,
    Reason,
)

NOW_S, DAY_S = 1_800_000_000, 86_400
SECRET, OTHER = b"s" * 16, b"o" * 16
RIGHTS = frozenset(("join", "store"))
KEYS = [SigningKey(bytes((n,)) * 32).public for n in range(1, 6)]
ANNA, BERTA, CARLA = KEYS[:3]


def invitation(secret: bytes = SECRET, *, uses: int = 1, until_s: int = NOW_S + DAY_S) -> IssuedInvitation:
    return IssuedInvitation(digest(secret), RIGHTS, uses, until_s, "friends")


def made(*all: IssuedInvitation) -> Invitations:
    found = Invitations()
    for one in all:
        found.add(one)
    return found


def test_a_use_lets_in_one_key_which_may_ask_again() -> None:
    these = made(invitation(uses=2))
    first = these.redeem(SECRET, ANNA, "laptop", NOW_S)
    assert first.refused is None and first.invitation is not None and first.invitation.left == 1
    again = these.redeem(SECRET, ANNA, "laptop", NOW_S + 2 * DAY_S)
    assert (again.refused, again.row) == (None, None), "the same answer, also after the end, and nothing to write"
    assert these.redeem(SECRET, BERTA, "", NOW_S).refused is None
    assert these.redeem(SECRET, CARLA, "", NOW_S).refused is INVITE_USED_UP
    assert [(key, guest) for key, guest, _ in these.owed()] == [(ANNA, Guest("laptop")), (BERTA, Guest())]


@pytest.mark.parametrize(
    ("secret", "at_s", "revoked", "reason"),
    [
        (OTHER, NOW_S, False, INVITE_UNKNOWN), (SECRET, NOW_S + DAY_S, False, INVITE_EXPIRED),
        (SECRET, NOW_S, True, INVITE_REVOKED), (SECRET, NOW_S + DAY_S, True, INVITE_REVOKED),
    ],
)  # fmt: skip
def test_why_it_lets_nobody_in(secret: bytes, at_s: int, revoked: bool, reason: Reason) -> None:
    these = made(invitation())
    if revoked:
        [(place, _)] = these.revoke(digest(SECRET), at_s)
        assert place == INVITED + digest(SECRET) and these.revoke(digest(SECRET), at_s) == []
    assert these.redeem(secret, ANNA, "", at_s).refused is reason
    assert not [*these.owed()]


def test_a_guest_of_a_revoked_invitation_keeps_what_it_has_and_hears_yes() -> None:
    these = made(invitation())
    these.redeem(SECRET, ANNA, "", NOW_S)
    these.revoke(digest(SECRET), NOW_S)
    assert these.redeem(SECRET, ANNA, "", NOW_S).refused is None
    assert [key for key, _, _ in these.owed()] == [ANNA]


def test_strangers_are_let_in_until_a_day_after_its_end_to_hear_why_it_is_over() -> None:
    these = made(invitation())
    these.redeem(SECRET, ANNA, "", NOW_S)
    assert these.admits(NOW_S + 2 * DAY_S - 1) and not these.admits(NOW_S + 2 * DAY_S)
    these.revoke(digest(SECRET), NOW_S)
    assert these.admits(NOW_S + DAY_S - 1) and not these.admits(NOW_S + DAY_S)


def test_nobody_new_is_let_in_without_room() -> None:
    these = made(invitation(uses=2))
    these.redeem(SECRET, ANNA, "", NOW_S)
    assert these.redeem(SECRET, BERTA, "", NOW_S, INVITE_NO_ROOM).refused is INVITE_NO_ROOM
    assert these.redeem(SECRET, ANNA, "", NOW_S, INVITE_NO_ROOM).refused is None
    assert [key for key, _, _ in these.owed()] == [ANNA]


def test_who_has_the_rights_takes_no_use_also_of_one_that_is_used_up_but_not_of_one_that_is_over() -> None:
    these = made(invitation())
    found = these.redeem(SECRET, ANNA, "", NOW_S, INVITE_NO_ROOM, lambda one: True)
    assert (found.refused, found.row) == (None, None) and not [*these.owed()]
    these.redeem(SECRET, BERTA, "", NOW_S)
    assert these.redeem(SECRET, ANNA, "", NOW_S, None, lambda one: True).refused is None
    assert these.redeem(SECRET, ANNA, "", NOW_S + DAY_S, None, lambda one: True).refused is INVITE_EXPIRED
    these.revoke(digest(SECRET), NOW_S)
    assert these.redeem(SECRET, ANNA, "", NOW_S, None, lambda one: True).refused is INVITE_REVOKED


def test_a_grant_that_ends_before_the_file_has_it_is_owed_no_more() -> None:
    these = made(replace(invitation(), grant_until_s=NOW_S + 60))
    these.redeem(SECRET, ANNA, "", NOW_S)
    assert these.ended(NOW_S + 59) == [] and [*these.owed()]
    assert these.ended(NOW_S + 60) and not [*these.owed()]


def test_what_does_not_fit_is_a_sentence() -> None:
    these = made(*(invitation(b"%016d" % n) for n in range(INVITATIONS_MAX)))
    for one, said in (
        (invitation(b"%016d" % 0), "an invitation with this secret exists; make another one"),
        (invitation(), f"there are {INVITATIONS_MAX} invitations; revoke some, or wait until some are over"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            these.add(one)
    for uses in (0, USES_MAX + 1):
        with pytest.raises(ValueError, match=f"1 to {USES_MAX} uses, not {uses}"):
            made(invitation(uses=uses))


def test_a_crash_while_the_file_changes_is_told_apart_from_a_removal() -> None:
    before, after = digest(b"the file"), digest(b"the file with the block")
    for at_start, owed in ((before, [ANNA]), (after, [])):
        these = made(invitation())
        these.redeem(SECRET, ANNA, "", NOW_S)
        these.begin(ANNA, before)
        assert [guest.state for _, guest, _ in these.owed()] == [BEGUN], "it counts until the file has it"
        these.started(at_start)
        assert [key for key, _, _ in these.owed()] == owed


def test_what_is_written_counts_no_more_and_is_forgotten_in_the_end() -> None:
    these = made(invitation())
    these.redeem(SECRET, ANNA, "", NOW_S)
    late_s = NOW_S + DAY_S + KEEP_S
    assert these.forget(late_s) == [], "its grant is in no file yet"
    these.written(ANNA)
    assert not [*these.owed()] and these.written(ANNA) == [], "a second time nothing changes"
    assert these.forget(late_s - 1) == []
    assert these.forget(late_s) == [(INVITED + digest(SECRET), None)]
    assert these.redeem(SECRET, ANNA, "", late_s).refused is INVITE_UNKNOWN


class Machine(RuleBasedStateMachine):
    """Restarts at any moment lose nothing, and there are never more guests than uses."""

    @initialize(uses=st.integers(1, 3))
    def invite(self, uses: int) -> None:
        self.these = Invitations()
        self.rows: dict[bytes, bytes] = {}
        self.uses, self.yes, self.now_s = uses, set[PublicKey](), NOW_S
        self._keep(self.these.add(invitation(uses=uses)))

    def _keep(self, *rows: tuple[bytes, bytes | None]) -> None:
        for key, value in rows:
            assert value is not None
            self.rows[key] = value

    @rule(key=st.sampled_from(KEYS), secret=st.sampled_from((SECRET, OTHER)))
    def redeem(self, key: PublicKey, secret: bytes) -> None:
        found = self.these.redeem(secret, key, "", self.now_s)
        if found.row is not None:
            self._keep(found.row)
        if found.refused is None:
            self.yes.add(key)
        else:
            assert secret != SECRET or key not in self.yes, "nobody who was told yes is turned away"

    @rule()
    def revoke(self) -> None:
        self._keep(*self.these.revoke(digest(SECRET), self.now_s))

    @rule(key=st.sampled_from(KEYS), file=st.binary(min_size=1, max_size=1))
    def write(self, key: PublicKey, file: bytes) -> None:
        self._keep(*self.these.begin(key, file))

    @rule(key=st.sampled_from(KEYS))
    def written(self, key: PublicKey) -> None:
        self._keep(*self.these.written(key))

    @rule(file=st.binary(min_size=1, max_size=1))
    def restart(self, file: bytes) -> None:
        before = {one.id: one for one in self.these}
        self.these = Invitations()
        self.these.load(self.rows.items())
        assert {one.id: one for one in self.these} == before
        self._keep(*self.these.started(file))

    @rule(seconds=st.integers(1, DAY_S))
    def wait(self, seconds: int) -> None:
        self.now_s += seconds

    @invariant()
    def uses_are_kept(self) -> None:
        for key, value in getattr(self, "rows", {}).items():
            one = from_row(key[1:], value)
            assert set(one.guests) == self.yes and len(one.guests) <= self.uses


TestMachine = Machine.TestCase
