"""The invitations of a home: kept with their secret until they are answered, and their group never lost."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest
from samples.invitations import CORE, FRIENDS, invitation

from router.core.wire.grouplink import new_group
from router.disk import private_file
from router.settings import keyring, received
from router.settings.keyring import KeyringError
from router.settings.received import KEEP_S, Answer

NOW_S = 1_800_000_000
GIVEN = invitation(until_s=NOW_S + 3600)
YES = Answer(rights=("join", "store"), grant_until_s=NOW_S + 9)
NO = Answer(reason="invite:used-up", sentence="All uses of the invitation are taken by other guests.")


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
def test_an_answer_counts_once(tmp_path: Path, answer: Answer) -> None:
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
