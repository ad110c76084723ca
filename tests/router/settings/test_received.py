"""The invitations of a home keep their secret until they are answered, and their group is never lost."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import msgspec
import pytest
from samples.invitations import CORE, FRIENDS, invitation

from router.core.wire.grouplink import new_group
from router.disk import private_file
from router.settings import keyring, received
from router.settings.keyring import KeyringError
from router.settings.received import KEEP_S, InvitationAnswer, ToldTerms

NOW_S = 1_800_000_000
GIVEN = invitation(until_s=NOW_S + 3600)
YES = InvitationAnswer(rights=("join", "store"), grant_until_s=NOW_S + 9)
NO = InvitationAnswer(reason="invite:used-up", sentence="All uses of the invitation are taken by other guests.")


def file_of(home: Path) -> Path:
    return home / "invitations" / GIVEN.id.hex()


def test_it_is_kept_for_its_owner_alone_until_the_answer_and_its_secret_not_longer(tmp_path: Path) -> None:
    kept = received.keep(tmp_path, GIVEN)
    assert kept.outcome == "waiting" and kept.key == CORE.public and kept.invitation() == GIVEN
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
    assert stat.S_IMODE(file_of(tmp_path).parent.stat().st_mode) == 0o700
    new = received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    assert new is not None and new == received.find(tmp_path, GIVEN.id)
    assert (new.outcome, new.rights, new.group, new.grant_until_s) == (
        "joined",
        ("join", "store"),
        "friends",
        NOW_S + 9,
    )
    assert "upsycle:" not in file_of(tmp_path).read_text()
    assert keyring.groups(tmp_path) == {"friends": FRIENDS}


@pytest.mark.parametrize("answer", [YES, NO])
def test_an_answer_counts_once(tmp_path: Path, answer: InvitationAnswer) -> None:
    received.keep(tmp_path, GIVEN)
    assert received.answered(tmp_path, GIVEN.id, answer, NOW_S)
    assert received.answered(tmp_path, GIVEN.id, NO if answer is YES else YES, NOW_S) is None
    assert received.answered(tmp_path, b"x" * 32, YES, NOW_S) is None
    assert [one.outcome for one in received.received(tmp_path)] == ["joined" if answer is YES else "refused"]


def test_an_answered_one_that_is_given_again_waits_for_the_present_answer(tmp_path: Path) -> None:
    received.keep(tmp_path, GIVEN)
    received.answered(tmp_path, GIVEN.id, NO, NOW_S)
    assert received.received(tmp_path)[0].sentence == NO.sentence
    assert received.keep(tmp_path, GIVEN).outcome == "waiting"
    received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    assert received.keep(tmp_path, GIVEN).outcome == "waiting"
    new = received.answered(tmp_path, GIVEN.id, NO, NOW_S)
    assert new is not None and (new.outcome, new.reason) == ("refused", "invite:used-up")
    assert keyring.groups(tmp_path) == {"friends": FRIENDS}, "what is kept stays"


def test_an_accepted_one_that_is_given_again_keeps_its_rights_until_the_answer(tmp_path: Path) -> None:
    received.keep(tmp_path, GIVEN)
    forever = msgspec.structs.replace(YES, grant_until_s=0)
    received.answered(tmp_path, GIVEN.id, forever, NOW_S)
    again = received.keep(tmp_path, GIVEN)
    assert again.invitation() == GIVEN and not again.is_open
    assert received.problems([again], NOW_S) == {}
    assert received.rights_at(tmp_path, CORE.public, NOW_S) == ("join", "store")
    assert received.told(tmp_path, CORE.public, ToldTerms(), NOW_S + 1), "what its router says meanwhile counts"
    assert received.rights_at(tmp_path, CORE.public, NOW_S) == ()
    new = received.answered(tmp_path, GIVEN.id, forever, NOW_S + 2)
    assert new is not None and new.outcome == "joined"


def test_a_crash_between_the_group_and_the_file_asks_again_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received.keep(tmp_path, GIVEN)
    write = private_file.replace

    def killed(path: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(private_file, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    monkeypatch.setattr(private_file, "replace", write)
    assert received.received(tmp_path)[0].outcome == "waiting" and "friends" in keyring.groups(tmp_path)
    assert received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    assert list(keyring.groups(tmp_path)) == ["friends"]


def test_a_group_whose_name_is_taken_gets_a_number_and_a_known_one_keeps_its_name(tmp_path: Path) -> None:
    keyring.add_group(tmp_path, "friends", new_group(b"o" * 32, b"o" * 32))
    received.keep(tmp_path, GIVEN)
    new = received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    assert new is not None and new.group == "friends-2"
    another = invitation(until_s=NOW_S + 9, secret=b"t" * 16, group=FRIENDS.read_only())
    received.keep(tmp_path, another)
    new = received.answered(tmp_path, another.id, YES, NOW_S)
    assert new is not None and new.group == "friends-2"
    assert keyring.groups(tmp_path)["friends-2"].seed is not None, "a read-only invitation takes no right away"


def test_a_group_that_is_kept_under_another_key_is_said(tmp_path: Path) -> None:
    keyring.add_group(tmp_path, "friends", new_group(b"f" * 32, b"o" * 32))
    received.keep(tmp_path, GIVEN)
    new = received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    assert new is not None and new.outcome == "joined"
    assert new.sentence == (
        "its group was not kept: this link opens friends by another key than the link that is kept here, so one of "
        "them is damaged; copy it again, or give --replace to believe the new one"
    )


def test_a_withdrawn_one_is_gone_and_an_answered_one_after_a_while(tmp_path: Path) -> None:
    received.keep(tmp_path, GIVEN)
    received.tidy(tmp_path, NOW_S + 2 * KEEP_S)
    assert len(received.received(tmp_path)) == 1
    received.withdraw(tmp_path, b"x" * 32)
    assert len(received.received(tmp_path)) == 1
    received.withdraw(tmp_path, CORE.public)
    assert not received.received(tmp_path)
    assert received.answered(tmp_path, GIVEN.id, YES, NOW_S) is None and not keyring.groups(tmp_path)
    received.keep(tmp_path, GIVEN)
    received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    received.tidy(tmp_path, NOW_S + KEEP_S)
    assert not received.received(tmp_path)


def test_there_is_an_end_to_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received, "RECEIVED_MAX", 1)
    received.keep(tmp_path, GIVEN)
    received.keep(tmp_path, GIVEN)
    with pytest.raises(KeyringError, match="holds 1 invitations, which is the most; `router peer remove` ends those"):
        received.keep(tmp_path, invitation(until_s=NOW_S, secret=b"t" * 16))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("open", "can be read by others (mode 644); run: chmod 600"),
        ("cut", "should hold an invitation; move it away, and add the invitation again"),
        ("directory", "cannot be read: Is a directory; it must be a file of the user who runs this"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_without_its_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, said: str
) -> None:
    received.keep(tmp_path, GIVEN)
    path = file_of(tmp_path)
    if damage == "open":
        path.chmod(0o644)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.unlink()
        path.mkdir()
    with caplog.at_level(logging.WARNING):
        assert not received.received(tmp_path)
    assert said in caplog.text and "upsycle:" not in caplog.text
    assert received.answered(tmp_path, GIVEN.id, YES, NOW_S) is None


def test_no_repr_shows_the_link(tmp_path: Path) -> None:
    assert "upsycle:" not in repr(received.keep(tmp_path, GIVEN))


OTHER = invitation(until_s=NOW_S + 3600, secret=b"o" * 16)
ASK = "; ask its operator for a new invitation"
UNBLOCK = "ask its operator to unblock this node"
REMOVED = "it gives us no rights any more: the operator has removed this guest since it was let in"
REFUSED = f"it refused our invitation: all uses of the invitation are taken by other guests{ASK}"


def wrong(home: Path, now_s: int = NOW_S) -> str:
    return received.problems(received.received(home), now_s).get(CORE.public, "")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((NO,), REFUSED),
        ((YES,), ""),
        ((NO, ToldTerms(rights=("join",))), ""),
        ((NO, ToldTerms(rights=("join",)), ToldTerms()), REFUSED),
        ((YES, ToldTerms()), f"it gives us no rights any more{ASK}"),
        ((YES, ToldTerms(ended="invite:removed")), f"{REMOVED}{ASK}"),
        ((YES, ToldTerms(ended="blocked")),
         f"it gives us no rights any more: the operator has blocked this key; {UNBLOCK}"),
        ((YES, ToldTerms(ended="invite:ended", grant_until_s=1_799_999_940)),
         f"the rights that it gave us ended on 2027-01-15 07:59 UTC{ASK}"),
        ((YES, ToldTerms(ended="invite:removed"), ToldTerms(rights=("join", "store"))), ""),
    ],
)  # fmt: skip
def test_the_newest_that_its_router_said_is_what_is_wrong(
    tmp_path: Path, steps: tuple[InvitationAnswer | ToldTerms, ...], said: str
) -> None:
    received.keep(tmp_path, GIVEN)
    for at_s, step in enumerate(steps, NOW_S):
        if isinstance(step, ToldTerms):
            received.told(tmp_path, CORE.public, step, at_s)
        else:
            received.answered(tmp_path, GIVEN.id, step, at_s)
    assert wrong(tmp_path) == said
    assert bool(received.rights_at(tmp_path, CORE.public, NOW_S)) is (said == "")


def test_rights_with_an_end_end_by_themselves(tmp_path: Path) -> None:
    received.keep(tmp_path, GIVEN)
    received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    assert wrong(tmp_path, NOW_S + 8) == ""
    assert wrong(tmp_path, NOW_S + 9) == f"the rights that it gave us ended on 2027-01-15 08:00 UTC{ASK}"


def test_a_later_refusal_takes_no_right_that_we_have_and_an_older_one_is_overtaken(tmp_path: Path) -> None:
    for at_s, (one, said) in enumerate(((OTHER, NO), (GIVEN, InvitationAnswer(rights=("join",)))), NOW_S):
        received.keep(tmp_path, one)
        received.answered(tmp_path, one.id, said, at_s)
    assert wrong(tmp_path) == ""
    received.keep(tmp_path, OTHER)
    assert wrong(tmp_path) == "its invitation is not answered yet"
    received.answered(tmp_path, OTHER.id, NO, NOW_S + 5)
    assert wrong(tmp_path) == ""
    received.told(tmp_path, CORE.public, ToldTerms(ended="invite:removed"), NOW_S + 6)
    assert "has removed this guest" in wrong(tmp_path)


def test_what_was_told_is_written_when_it_is_news_and_once_a_day(tmp_path: Path) -> None:
    received.keep(tmp_path, GIVEN)
    assert not received.told(tmp_path, CORE.public, ToldTerms(), NOW_S) and wrong(tmp_path).startswith("its invitation")
    received.answered(tmp_path, GIVEN.id, YES, NOW_S)
    told = ToldTerms(rights=("join",))
    for at_s, at_file_s in ((1, 1), (2, 1), (86_400, 1), (86_402, 86_402)):
        assert not received.told(tmp_path, CORE.public, told, NOW_S + at_s)
        assert received.received(tmp_path)[0].told_s == NOW_S + at_file_s
    assert not received.told(tmp_path, b"x" * 32, ToldTerms(), NOW_S) and received.received(tmp_path)[0].rights == (
        "join",
    )
    assert received.told(tmp_path, CORE.public, ToldTerms(ended="invite:removed"), NOW_S + 86_403), (
        "all rights are lost"
    )
    assert not received.told(tmp_path, CORE.public, ToldTerms(ended="invite:removed"), NOW_S + 86_404)
    received.tidy(tmp_path, NOW_S + KEEP_S + 86_402)
    assert received.received(tmp_path)
    received.tidy(tmp_path, NOW_S + KEEP_S + 86_403)
    assert not received.received(tmp_path)
