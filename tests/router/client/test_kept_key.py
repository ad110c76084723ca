"""An app whose key was renewed: another one is kept under its name, and signs from then on."""

from __future__ import annotations

from pathlib import Path

from router.client.app_end import End
from router.client.errors import Renewed, Replaced
from router.client.kept_key import KeptKey
from router.client.options import Settings, SignOn
from router.core.link.session import Ended
from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text
from router.settings import keyring, renewed_keys


def test_the_key_that_is_kept_now_is_signed_by_once_it_is_another(tmp_path: Path) -> None:
    sign_on, said, signed = SignOn(Settings(home=tmp_path, as_name="laptop")), list[str](), list[SigningKey]()
    kept, old = KeptKey(sign_on, said.append, signed.append), sign_on.key
    assert kept.now() is not None and not said and not signed, "the same one still"
    renewal = renewed_keys.begin(tmp_path / "keys", "laptop", lambda: old, 1_800_000_000)
    renewed_keys.finish(tmp_path / "keys", "laptop", renewal)
    new = renewal.new
    found = kept.now()
    assert found is not None and found.public == sign_on.key.public == new and signed == [found]
    assert said == [f'the key of the app "laptop" was renewed: its address is {key_text("addr", new)} now']
    (tmp_path / "keys" / "laptop.key").unlink()
    assert kept.now() is None and "there is no key" in said[-1] and len(signed) == 1


def test_a_key_without_a_name_has_no_other(tmp_path: Path) -> None:
    keyring.load_or_create(tmp_path, "laptop")
    for settings in (Settings(home=tmp_path), Settings(home=tmp_path, key=SigningKey(b"x" * 32))):
        assert KeptKey(SignOn(settings), print).now() is None


def test_the_end_by_a_renewal_has_an_error_of_its_own() -> None:
    renewed = End("told", True, Ended(Reason.RENEWED, ""))
    replaced = End("told", True, Ended(Reason.REPLACED, ""))
    assert renewed.is_by_renewal and not replaced.is_by_renewal and not End("lost").is_by_renewal
    assert isinstance(renewed.error(), Renewed) and isinstance(replaced.error(), Replaced)
