"""The names of keys in a home, as operators see them."""

from __future__ import annotations

from pathlib import Path

from router.core.wire.crypto import SigningKey
from router.settings import keyring
from router.settings.config_services import key_name
from router.settings.home import Home
from router.settings.names import Names


def test_the_group_of_a_service_s_own_key_is_called_as_that_key(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    key = keyring.load_or_create(home, key_name("discovery")).public
    names = Names.of(home)
    assert names.of_group(key.hex()) == names.of_address(key.hex()) == "service-discovery"
    assert names.of_group(SigningKey(b"s" * 32).public.hex()) == ""
