"""Keys in a directory: readable by their owner alone, never overwritten, and refused if others can read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.dmq import key_files
from services.dmq.core.messages.envelope import BadEnvelope
from services.dmq.core.messages.pool_keys import CERTIFICATE, KES_SECRET, BadKeys, generate

FILES = generate(b"c" * 32, b"k" * 32, 0)


def test_they_are_private_and_read_again(tmp_path: Path) -> None:
    home = tmp_path / "keys"
    key_files.write(home, FILES)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == FILES
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o600}
    keys = key_files.read(home)
    assert keys.certificate.kes_key == keys.kes.public


def test_none_is_written_if_one_is_there(tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE).write_bytes(b"mine")
    with pytest.raises(BadKeys, match=f"holds {CERTIFICATE} already; name another directory"):
        key_files.write(tmp_path, FILES)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(CERTIFICATE, b"mine")]


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    key_files.write(tmp_path, FILES)
    (tmp_path / CERTIFICATE).chmod(0o644)
    key_files.read(tmp_path)
    (tmp_path / KES_SECRET).chmod(0o640)
    with pytest.raises(BadKeys, match=r"open to others \(mode 640\); make it yours alone with chmod 600"):
        key_files.read(tmp_path)


def test_what_is_wrong_names_its_file(tmp_path: Path) -> None:
    key_files.write(tmp_path, FILES)
    (tmp_path / KES_SECRET).write_text("{}")
    with pytest.raises(BadEnvelope, match=f"{tmp_path / KES_SECRET}: this is no KesSigningKey.* .it lacks type or"):
        key_files.read(tmp_path)
    (tmp_path / KES_SECRET).write_bytes(generate(b"c" * 32, b"o" * 32, 0)[KES_SECRET])
    with pytest.raises(BadKeys, match=f"{CERTIFICATE} is the certificate of another KES key than .*{KES_SECRET}; put"):
        key_files.read(tmp_path)


def test_a_directory_that_is_none_or_empty(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadKeys, match=r"cannot write keys into .*file: .*; name another directory"):
        key_files.write(tmp_path / "file", FILES)
    with pytest.raises(BadKeys, match=f"cannot read .*{CERTIFICATE}: No such file or directory; name the directory"):
        key_files.read(tmp_path)
