"""Temporary directories in which Unix sockets fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.rig.socket_room import PLACES, socket_room


def test_sockets_go_elsewhere_only_where_the_directory_of_temporary_files_is_a_long_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place, room in (("/tmp", None), ("/tmp/" + 80 * "x", PLACES[0])):
        monkeypatch.setattr("tempfile.tempdir", place)
        assert socket_room() == room
    assert socket_room(["/tmp/" + 90 * "y", "/nowhere"]) is None
