"""Errors become sentences and exit codes; help stays quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rigs.commands import ROUTER

from router.cli import COMMANDS, Root
from router.cli.exits import Exit, Failure, report, with_home
from router.cli.services import explained
from router.core.wire.admin import no_service
from router.core.wire.text import BadText
from router.disk.store.terms import StoreError
from router.settings import keyring
from router.settings.config_text import ConfigError
from router.settings.home import Home, HomeBusy
from router.transport.contract import ListenFailed


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (Failure(Exit.REFUSED, "blocked"), 4, "blocked\n"),
        (ConfigError(("one", "two", "three")), 2, "one\nand 2 more; `router config check` lists them\n"),
        (BadText("no key"), 2, "no key\n"),
        (BadText("a service's\x1b[2J word"), 2, "a service's [2J word\n"),
        (HomeBusy("busy"), 1, "busy\n"),
        (StoreError("damaged"), 1, "damaged\n"),
        (ExceptionGroup("", [ExceptionGroup("", [ListenFailed("taken")])]), 1, "taken\n"),
        (HomeBusy("/a\nhome is busy"), 1, "/a home is busy\n"),
        (click.Abort(), 130, ""),
        (PermissionError(13, "Permission denied", "x"), 1, "x: Permission denied\n"),
    ],
)
def test_an_error_is_a_sentence(error: Exception, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("name", ["a home", "zuhause-ü", "a\nhome", "it's\\\n\tone", "\udcff"])
def test_a_remedy_names_any_home_on_one_line(name: str) -> None:
    said = with_home("`router serve` starts it", name)
    word = said.removeprefix("`router --home ").removesuffix(" serve` starts it")
    shown = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert shown == os.fsencode(name) and said.isprintable()


def test_our_own_bug_names_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        assert report(error) == 1
    said = capsys.readouterr().err
    assert "KeyError: 'x' (test_cli_exits.py:" in said
    assert len(said.splitlines()) == 2


def test_help_names_every_command_and_loads_none() -> None:
    script = "import sys; from router.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    help_text, modules = ran.stdout.rsplit("\n", 2)[0], ran.stdout.splitlines()[-1].split()
    for name in ("init", "serve", "pub", "sub", "config"):
        assert f"  {name} " in help_text
    assert not {"trio", "rich", "nacl", "lmdb", "msgspec"} & set(modules)


def test_every_command_has_help() -> None:
    ran = subprocess.run([*ROUTER, "sub", "--help"], capture_output=True, text=True, check=True)
    assert "--home DIR" in ran.stdout
    assert all(entry.about.endswith(".") for entry in COMMANDS.values())


def test_an_interrupt_in_a_group_is_code_130() -> None:
    @click.command(cls=Root, invoke_without_command=True)
    def command() -> None:
        raise BaseExceptionGroup("", [KeyboardInterrupt()])

    assert CliRunner().invoke(command, []).exit_code == 130


@pytest.mark.parametrize("args", [("--help",), ("init",)])
def test_output_that_cannot_be_written_is_a_sentence(args: tuple[str, ...], tmp_path: Path) -> None:
    command = [*ROUTER, "--home", str(tmp_path / "home"), *args]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (
        1, "No space left on device: standard output, or a file of the home, could not be written",
    )  # fmt: skip


def test_option_without_its_value_names_the_help_of_its_command() -> None:
    ran = subprocess.run([*ROUTER, "web", "logins", "--end"], capture_output=True, text=True, check=False)
    assert ran.returncode == Exit.USAGE and "`router web logins --help`" in ran.stderr


def test_service_that_the_file_names_and_the_running_node_lacks_needs_a_start(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    keyring.load_or_create(home, keyring.NODE)
    absent = Failure(Exit.FAILED, f"{no_service('web')}; node.services names none: add its module there")
    assert explained(home, "web", absent) is absent
    home.config_path.write_text('[node]\nservices = ["services.web"]\n')
    assert "start the node again" in str(explained(home, "web", absent))
    other = Failure(Exit.FAILED, "the service web is not running")
    assert explained(home, "web", other) is other
