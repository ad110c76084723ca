"""The unit of a node by value, and as systemd's own checks judge it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.patience import HANG_S

from router.cli.unit.unit_file import Unit, UnitFault, home_of, is_made, quoted

OF_A_USER = Unit("router", ("/home/ann/.local/bin/router",), "/home/ann/.local/share/node")
OF_THE_MACHINE = Unit("router", (sys.executable, "-P", "-m", "router"), "/var/lib/router", "router")


def test_unit_of_a_user_names_program_and_home_and_comes_with_the_session() -> None:
    text = OF_A_USER.text()
    assert "\nExecStart=/home/ann/.local/bin/router --home /home/ann/.local/share/node serve\n" in text
    assert "\nType=notify\n" in text and "\nWatchdogSec=2min\n" in text and "\nLimitCORE=0\n" in text
    assert "\nWantedBy=default.target\n" in text and "User=" not in text


def test_unit_of_the_machine_has_an_account_a_state_and_no_capabilities() -> None:
    text = OF_THE_MACHINE.text()
    assert "\nUser=router\nStateDirectory=router\n" in text and "\nCapabilityBoundingSet=\n" in text
    assert "\nWantedBy=multi-user.target\n" in text


def test_change_by_hand_is_seen() -> None:
    text = OF_A_USER.text()
    assert is_made(text)
    assert not is_made(text.replace("WatchdogSec=2min", "WatchdogSec=3min"))
    assert not is_made(text.replace("# Made", "#Made")) and not is_made("") and not is_made("[Unit]\n")


def test_unit_of_a_package_is_the_same_but_for_its_first_line() -> None:
    made, packaged = OF_THE_MACHINE.text(), OF_THE_MACHINE.text_of_package("a-package")
    assert made.partition("\n")[2] == packaged.partition("\n")[2] and home_of(packaged) == "/var/lib/router"
    assert not is_made(packaged) and "a-package" in packaged and "systemctl edit router" in packaged


@given(st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=40))
def test_home_of_any_name_is_read_back(name: str) -> None:
    home = f"/srv/{name}"
    assert home_of(Unit("router", ("/usr/bin/router",), home).text()) == home


def test_words_are_quoted_as_systemd_reads_them() -> None:
    assert [quoted(word) for word in ("/a b", '/a"b', "/a%h", "/a$HOME", "/a\\b", "/ab")] == [
        '"/a b"', '"/a\\"b"', '"/a%%h"', '"/a$$HOME"', '"/a\\\\b"', "/ab",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (Unit("router", ("/bin/router",), "/srv/a\nExecStartPre=/bin/sh"), "control character"),
        (Unit("router", ("/bin/router",), "/srv/node", "router"), "use --home /var/lib/router"),
    ],
)  # fmt: skip
def test_what_no_unit_can_be_is_refused(unit: Unit, said: str) -> None:
    with pytest.raises(UnitFault, match=said):
        unit.text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("unit", [Unit("router", OF_THE_MACHINE.program, "/srv/node"), OF_THE_MACHINE])
def test_systemd_finds_no_fault_in_a_unit_and_little_exposure_of_the_machine_s(unit: Unit, tmp_path: Path) -> None:
    file = tmp_path / unit.file_name
    file.write_text(unit.text())
    checks = [["verify", "--man=no"], *([["security", "--offline=true", "--threshold=20"]] if unit.user else [])]
    for check in checks:
        done = subprocess.run(
            ["systemd-analyze", *check, file], capture_output=True, text=True, timeout=HANG_S, check=False
        )
        assert done.returncode == 0 and not (check[0] == "verify" and done.stderr), done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_a_unit_may_lower_its_own_priority_and_alter_no_other_resource() -> None:
    """Of a program that may not, the kernel would end the processes that work beside the node: they begin with it."""
    allowed = set[str]()
    for words in (
        line.removeprefix("SystemCallFilter=").split()
        for line in OF_THE_MACHINE.text().splitlines()
        if line.startswith("SystemCallFilter=")
    ):
        named = set[str]().union(*(calls_of(word.removeprefix("~")) for word in words))
        allowed = allowed - named if words[0].startswith("~") else allowed | named
    assert "setpriority" in allowed and "write" in allowed
    assert not allowed & (calls_of("@resources") - {"setpriority"}) and not allowed & calls_of("@privileged")


def calls_of(name: str) -> set[str]:
    """Return the system calls of that name of systemd.exec(5), or the one of that name."""
    if not name.startswith("@"):
        return {name}
    said = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    words = {line.strip() for line in said.stdout.splitlines()[1:] if not line.strip().startswith("#")} - {""}
    return set[str]().union(*(calls_of(word) if word.startswith("@") else {word} for word in words))
