"""Unicasts sealed over the renewal of a key: to the old address, to the new one, by who was told and who was not."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_unicast_sealing import NOW_MIN, App, acquainted

from router.client.sealing import unicast_sealing
from router.client.sealing.correspondents import Verdict, Writing
from router.client.sealing.own_prekeys import OwnPrekeys
from router.client.sealing.rows import OWN_PREKEYS
from router.client.sequence import Sequences
from router.core.neighbours.renewals import RenewalVerdict
from router.core.wire.application import BadSeal
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_s
from router.core.wire.prekey import Prekey
from router.core.wire.renewal import READ_S, Renewal, make_renewal
from router.settings import keyring, renewed_keys
from router.settings.renewed_keys import RenewalError

NEW, OTHER = SigningKey(b"n" * 32), SigningKey(b"o" * 32)


def renewal(old: App, new: SigningKey = NEW, at_min: int = NOW_MIN) -> Renewal:
    return make_renewal(old.key, new, expiry_s(at_min), expiry_s(at_min) + READ_S)


def renew(bob: App, at_min: int = NOW_MIN) -> Renewal:
    said = renewal(bob, at_min=at_min)
    bob.key = NEW
    bob.machine.sign_by(NEW, [said])
    return said


def hear(alice: App, said: Renewal, now_min: int = NOW_MIN) -> RenewalVerdict:
    verdict, rows = alice.machine.renewed(said, now_min)
    alice.rows.gather(rows)
    return verdict


def test_what_was_sealed_to_the_old_address_is_opened_with_the_new_key_and_only_as_that() -> None:
    alice, bob = acquainted()
    old, body = bob.address, alice.seal(bob, b"psst", NOW_MIN)
    renew(bob)
    assert bob.machine.open(body, alice.address, NOW_MIN, old).message.content == b"psst"
    for destination in (None, NEW.public, alice.address):
        with pytest.raises(BadSeal):
            bob.machine.open(body, alice.address, NOW_MIN, destination)


def test_who_is_told_seals_to_the_new_address_with_the_prekey_that_comes_with_the_news() -> None:
    alice, bob = acquainted()
    old = bob.address
    said = renew(bob)
    assert hear(alice, said) is RenewalVerdict.NEWS and alice.machine.newest(old) == NEW.public
    assert alice.machine.prekey_of(old, NOW_MIN) is Writing.ASK, "if the prekey does not come"
    assert alice.hear_answer(NEW.public, bob.prekey(NOW_MIN), NOW_MIN) is Verdict.TAKEN
    for _ in range(2):
        found = alice.machine.prekey_of(old, NOW_MIN)
        assert isinstance(found, Prekey) and found.owner == NEW.public and found.verify()
        alice.restart()


def test_a_second_renewal_of_the_same_key_is_not_believed_also_after_a_restart() -> None:
    alice, bob = acquainted()
    thief, old = renewal(bob, OTHER), bob.address
    assert hear(alice, renewal(bob)) is RenewalVerdict.NEWS
    alice.restart()
    assert hear(alice, thief) is RenewalVerdict.OTHER and alice.machine.newest(old) == NEW.public
    assert hear(alice, renewal(bob)) is RenewalVerdict.KNOWN


def test_strangers_that_renew_their_keys_leave_room_for_those_that_the_app_writes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unicast_sealing, "STRANGERS_MAX", 2)
    alice, bob = acquainted()
    strangers = [App(bytes([number])) for number in range(1, 5)]
    for at, stranger in enumerate(strangers):
        said = renewal(stranger, SigningKey(bytes([100 + at]) * 32))
        assert hear(alice, said) is (RenewalVerdict.NEWS if at < 2 else RenewalVerdict.FULL)
        alice.restart()
        assert hear(alice, said) is (RenewalVerdict.KNOWN if at < 2 else RenewalVerdict.FULL)
    Sequences(alice.state).take(bob.address)
    assert hear(alice, renewal(bob)) is RenewalVerdict.NEWS and alice.machine.newest(bob.address) == NEW.public


def test_the_sender_with_a_new_key_brings_its_prekey_to_who_knows_the_old_one() -> None:
    alice, bob = acquainted()
    old, body = bob.address, alice.seal(bob, b"psst", NOW_MIN)
    bob.machine.open(body, alice.address, NOW_MIN)
    bob.ask(alice, NOW_MIN)
    bob.hear_answer(alice.address, alice.prekey(NOW_MIN), NOW_MIN)
    renew(bob)
    bob.machine.open(body, alice.address, NOW_MIN, old)
    opened = alice.machine.open(bob.seal(alice, b"answer", NOW_MIN), NEW.public, NOW_MIN)
    assert opened.verdict is Verdict.TAKEN and opened.message.prekey is not None
    assert opened.message.prekey.owner == NEW.public


def test_prekeys_that_the_old_key_has_given_out_are_given_out_no_more_and_open_for_their_time() -> None:
    alice, bob = acquainted()
    old, body, before = bob.address, alice.seal(bob, b"psst", NOW_MIN), bob.prekey(NOW_MIN)
    renew(bob, NOW_MIN + 2)
    after = bob.prekey(NOW_MIN + 3)
    assert after.id != before.id and after.owner == NEW.public and after.verify()
    assert bob.prekey(NOW_MIN + 4) == after, "one for each renewal"
    assert bob.machine.open(body, alice.address, NOW_MIN + 4, old).message.content == b"psst"
    kept = OwnPrekeys(NEW, bob.rows.under(OWN_PREKEYS), since_s=expiry_s(NOW_MIN + 2))
    assert len(kept) == 2 and not kept.is_due(NOW_MIN + 4)


def test_the_statements_of_a_name_are_read_and_damaged_ones_are_named(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    old = keyring.load_or_create(tmp_path, "laptop")
    assert renewed_keys.statements(keys, "laptop") == []
    said = renewed_keys.begin(keys, "laptop", lambda: old, 1_800_000_000)
    renewed_keys.finish(keys, "laptop", said)
    assert renewed_keys.statements(keys, "laptop") == [said]
    (keys / "laptop.renewed").write_text("zz\n")
    with pytest.raises(RenewalError, match=r"laptop\.renewed should hold the renewals"):
        renewed_keys.statements(keys, "laptop")
    assert renewed_keys.former(keys) == {}
