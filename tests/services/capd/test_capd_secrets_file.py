"""The secrets of messages that can be rescinded, kept by several commands at once."""

from __future__ import annotations

from pathlib import Path

from services.capd import secrets_file


def test_keep_goes_on_where_another_command_has_just_removed_a_file(tmp_path: Path) -> None:
    secrets_file.keep(tmp_path, "one", b"1")
    (tmp_path / secrets_file.FOLDER / "gone").symlink_to("nowhere")  # listed, and not there when it is looked at
    secrets_file.keep(tmp_path, "two", b"2")
    assert [secrets_file.find(tmp_path, one) for one in ("one", "two", "gone")] == [b"1", b"2", None]
