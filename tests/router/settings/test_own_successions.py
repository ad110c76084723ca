"""The statements beside a node's key: kept, read, and refused with a remedy if they lead elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.core.wire.crypto import SigningKey
from router.core.wire.succession import make_succession
from router.settings import own_successions
from router.settings.own_successions import FILE_NAME, KEPT_MAX, SuccessionError

KEYS = [SigningKey(bytes((n,)) * 32) for n in range(1, KEPT_MAX + 4)]
CHAIN = [make_succession(KEYS[at], KEYS[at + 1], 1_800_000_000, 1_800_000_009) for at in range(len(KEYS) - 1)]


def test_they_come_back_and_the_oldest_are_forgotten(tmp_path: Path) -> None:
    assert own_successions.load(tmp_path, KEYS[0].public) == []
    own_successions.save(tmp_path, CHAIN)
    assert own_successions.load(tmp_path, KEYS[-1].public) == CHAIN[-KEPT_MAX:]
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    ["", "zz\n", "8100\n", "".join(f"{own_successions.line_of(one)}\n" for one in CHAIN[:1]), "é\n"],
    ids=["none", "no hex", "no statement", "of another key", "no ASCII"],
)
def test_what_does_not_lead_to_the_key_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    (tmp_path / FILE_NAME).chmod(0o600)
    if not text:
        assert own_successions.load(tmp_path, KEYS[2].public) == []
        return
    with pytest.raises(SuccessionError, match="restore the file, or move it away"):
        own_successions.load(tmp_path, KEYS[2].public)


def test_a_file_that_others_can_read_or_that_is_no_file_is_refused(tmp_path: Path) -> None:
    own_successions.save(tmp_path, CHAIN[:1])
    (tmp_path / FILE_NAME).chmod(0o644)
    with pytest.raises(SuccessionError, match="chmod 600"):
        own_successions.load(tmp_path, KEYS[1].public)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(SuccessionError, match="cannot be read"):
        own_successions.load(tmp_path, KEYS[1].public)
