"""Arguments that the commands of a pool refuse before they ask the pool."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from samples.capd import BORN

from router.cli import main
from router.settings import keyring
from router.settings.home import Home
from services.capd.core.message import CapdMessage
from services.capd.drafting import made, wish_of

ID = "ab" * 32


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("query", "--start", "4294967296"), "Invalid value for '--start': 4294967296 is not in the range"),
        (("watch", "--timeout", "nan"), "Invalid value for '--timeout': 'nan' is no number of seconds"),
        (("rescind", ID, "ab" * 600), "the secret has 600 bytes; one has at most 520"),
        (("query", "--prefix", "ab" * 17), "--prefix has 17 bytes, and only the first 16 of the data are looked at"),
        (("query", "--value", "ab", "--mask", "abab"), "the value has 1 bytes and the mask 2; give both the same"),
        (("query", "--value", "ab"), "--value and --mask belong together"),
        (("query", "--prefix", "0x00"), "--prefix '0x00' is not hexadecimal; write two digits a byte"),
        (("decode", "--at", "-1", "00"), "Invalid value for '--at': -1 is not in the range"),
        (("export", ""), "the export goes into a file, and none is named; name one"),
        (("watch", "--forget"), "--forget ends the query of a kept key; name it with --as"),
        (("watch", "--forget", "--as", "bob"), "--forget ends one query: give it as it was left, with --prefix"),
        (("post", "x", "--relay-s", "600"), "no work makes a message live for 600 s"),
        (("get", "ab" * 31), "has 31 bytes instead of 32; give all of it"),
    ],
)
def test_commands_reject_bad_arguments(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--home", str(tmp_path), "capd", *arguments])
    assert result.exit_code == 2 and said in result.stderr, result.output


def test_watch_forget_makes_no_key_for_an_unknown_name(tmp_path: Path) -> None:
    keyring.load_or_create(tmp_path, keyring.NODE)
    arguments = ("capd", "watch", "--forget", "--as", "nobody", "--prefix", "ab")
    result = CliRunner().invoke(main, ["--home", str(tmp_path), *arguments])
    assert result.exit_code == 1 and "nobody has no such query" in result.stderr, result.output
    assert "nobody" not in keyring.names(tmp_path)


def test_export_does_not_replace_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = CliRunner().invoke(main, ["--home", str(tmp_path), "capd", "export", str(pipe)])
    assert result.exit_code == 2 and "is a device or a pipe" in result.stderr, result.output
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_export_replaces_no_other_file(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("kept, and longer than the head of a pool's file")
    result = CliRunner().invoke(main, ["--home", str(tmp_path), "capd", "export", str(words)])
    assert result.exit_code == 2 and "is there already, and no msgpool.dat; name another file" in result.stderr
    assert words.read_text().startswith("kept")


def test_import_rejects_bytes_behind_a_message_and_decode_notes_them(tmp_path: Path) -> None:
    wire = CapdMessage(b"data", BORN, 0x207FFFFF, b"n").encoded()
    text, end = (wire + b"\0\0").hex(), len(wire)
    given = tmp_path / "home"
    Home(given).create()
    refused = CliRunner().invoke(main, ["--home", str(given), "capd", "import", "--hex", text])
    assert refused.exit_code == 1 and f"2 bytes stand behind the message, which ends at byte {end}" in refused.stderr
    decoded = CliRunner().invoke(main, ["capd", "decode", text, wire.hex()])
    one, other = decoded.stdout.splitlines()
    assert decoded.exit_code == 0 and one == other and decoded.stderr.count(f"which ends at byte {end}") == 1


@pytest.mark.parametrize(
    ("expires", "said", "is_passed_on"),
    [(None, "", True), (601, "", True), (300, "", True), (100, "passed on for 100 s, until its --expires", True)],
)
async def test_expires_option_notes_how_long_the_message_is_passed_on(
    expires: int | None, said: str, is_passed_on: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = wish_of(b"x", 300, expires, 1, local=False, rescindable=False)
    noted = capsys.readouterr().err
    assert said in noted and bool(said) == bool(noted)
    until_s = (await made(wish)).facts()["relay_until"]
    assert (until_s is not None) == is_passed_on
    if expires == 100:
        assert 95 <= until_s - time.time() <= 100
