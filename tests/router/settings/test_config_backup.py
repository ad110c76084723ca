"""The section `[backup]` of router.toml: written and removed by a command, all else left as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.settings import config
from router.settings.config import sample
from router.settings.config_backup import Backup, with_section
from router.settings.config_text import ConfigError

VALUES: dict[str, object] = {"directory": "/media/a disk/ü\n", "every_s": 86_400, "keep": 3, "plain": True}
WANTED = Backup(directory="/media/a disk/ü\n", every_s=86_400, keep=3, plain=True)
TEXTS = (
    "",
    "[node]\nname = 'hub'",
    sample("core", name="hub"),
    "[backup] # ours\nkeep = 9\n# a note\nevery_s = 60\n\n[node]\nname = 'hub'\n",
    "[backup]",
)


@pytest.mark.parametrize("text", TEXTS)
def test_section_is_written_and_removed_and_all_else_stays(text: str, tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text(text)
    before = config.load(path)[0]
    config.edit_backup(path, VALUES)
    assert config.load(path)[0].backup == WANTED
    assert config.load(path)[0].node == before.node
    again = path.read_text()
    config.edit_backup(path, VALUES)
    assert path.read_text() == again
    config.edit_backup(path, {})
    assert config.load(path)[0].backup == Backup()
    assert [one for one in text.splitlines() if one.startswith("#")] == [
        one for one in path.read_text().splitlines() if one.startswith("#")
    ]


def test_file_without_the_section_stays_as_it_is_when_there_is_nothing_to_write() -> None:
    assert with_section("[node]\n", {}) == "[node]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("directory = 'media'\nplain = true", "must be a whole path"),
        ("directory = '/a\\u0000'\nplain = true".replace("'", '"'), "zero byte"),
        ("directory = '/a'", "set either backup.passphrase_file"),
        ("directory = '/a'\nplain = true\npassphrase_file = '/b'", "set either backup.passphrase_file"),
        ("directory = '/a'\npassphrase_file = 'b'", "backup.passphrase_file is 'b'"),
        ("every_s = 59", "every_s"),
        ("keep = 0", "keep"),
    ],
)
def test_sections_that_no_node_can_follow_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text(f"[backup]\n{text}\n")
    with pytest.raises(ConfigError, match=said):
        config.load(path)
