"""Keys are shown by the names that operators gave them, each name for one key."""

from __future__ import annotations

from pathlib import Path

from router.audit.key_names import key_names
from router.core.wire.crypto import SigningKey
from router.settings import config, keyring
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

FAR = SigningKey(b"f" * 32).public


def home(path: Path, calls_far: str) -> Home:
    found = Home(path)
    found.create()
    config.edit_peers(found.config_path, AddPeer(Peer(address=FAR, name=calls_far)))
    return found


def test_the_first_home_names_a_key_and_a_name_stands_for_one_key(tmp_path: Path) -> None:
    mine, other = home(tmp_path / "mine", "far"), home(tmp_path / "other", "remote")
    keys = [keyring.load_or_create(one, name).public.hex() for one in (mine, other) for name in (keyring.NODE, "bot")]
    found = key_names([mine, other])
    assert found[FAR.hex()] == "far"
    assert [found[key] for key in keys] == ["mine", "bot", "other", "bot (other)"]


def test_a_home_that_cannot_be_used_names_nothing(tmp_path: Path) -> None:
    broken = home(tmp_path / "mine", "far")
    keyring.load_or_create(broken, keyring.NODE)
    broken.config_path.write_text("[node")
    assert key_names([broken]) == {}
