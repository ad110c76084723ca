"""The systemd unit of the DMQ node: its directives, and a command line that `router dmq serve` takes."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path

from services.dmq.given_again import given_again
from services.dmq.serve_command import serve

UNIT = Path(__file__).parents[3] / "services" / "dmq" / "systemd" / "router-dmq.service"
NEEDED = {
    "Unit": {
        "Conflicts": "dmq-bp.service dmq-relay.service", "After": "network-online.target cardano-node.service",
        "StartLimitIntervalSec": "0",
    },
    "Service": {
        "Type": "notify", "User": "cardano", "StateDirectory": "router-dmq", "StateDirectoryMode": "0700",
        "Environment": "ROUTER_HOME=/var/lib/router-dmq", "UMask": "0077", "Restart": "on-failure",
        "NoNewPrivileges": "true", "ProtectSystem": "strict", "KillMode": "mixed",
    },
    "Install": {"WantedBy": "multi-user.target"},
}  # fmt: skip


def unit() -> RawConfigParser:
    found = RawConfigParser()
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read_string(UNIT.read_text())
    return found


def test_the_directives_that_it_needs() -> None:
    found = unit()
    assert {section: {name: found.get(section, name) for name in names} for section, names in NEEDED.items()} == NEEDED


def test_its_command_line_is_taken_and_its_sockets_lie_where_it_may_write() -> None:
    words = shlex.split(unit().get("Service", "ExecStart"))
    assert words[1:3] == ["dmq", "serve"]
    given = serve.make_context("serve", words[3:]).params
    assert str(Path(given["local_socket"]).parent) == unit().get("Service", "ReadWritePaths")
    assert given["configuration_file"] == "/opt/dmq/config-bp.json" and given["stake"].endswith("/stake.sh")
    assert sorted(given_again(serve.params, given)[1::2]) == sorted(words[4::2]), "its paths are absolute"


def test_systemd_takes_it(tmp_path: Path) -> None:
    """Where systemd is installed, it finds nothing wrong but the user and the paths of another machine."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return
    text = UNIT.read_text().replace("/srv/router/bin/router", sys.executable).replace("=cardano", "=root")
    (tmp_path / UNIT.name).write_text(text)
    done = subprocess.run([program, "verify", tmp_path / UNIT.name], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, said) == (0, [])
    (tmp_path / UNIT.name).write_text(f"{text}\n[Service]\nType=notifies\n")
    done = subprocess.run([program, "verify", tmp_path / UNIT.name], capture_output=True, text=True, check=False)
    assert "notifies" in done.stderr
