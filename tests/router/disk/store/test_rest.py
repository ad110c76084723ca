"""A copy of the store's file is of one moment: commits wait for it, and one that did not wait is noticed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from router.disk.store.rest import Disturbed, Rest, at_rest


def test_a_copy_during_which_a_commit_went_on_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(bytes(3 * 4096))
    with closing(Rest(file, wait_s=0)) as rest, pytest.raises(Disturbed), at_rest(file), rest.disturbed():
        file.write_bytes(b"1" + bytes(3 * 4096))


def test_a_commit_afterwards_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(bytes(3 * 4096))
    with closing(Rest(file, wait_s=0)) as rest:
        with at_rest(file):
            pass
        with rest.disturbed():
            file.write_bytes(b"1")
