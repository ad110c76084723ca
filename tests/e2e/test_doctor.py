"""`router doctor` on real homes, disks, ports, names and clocks: each fault is found, with its remedy."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rig import NodeProcess, rig
from rigs.patience import HANG_S

from router.actors.process import program
from router.cli.exits import Exit
from router.rig.process import until

DAY_S = 86_400
Row = Mapping[str, Any]


def examined(home: Path, *enter: str) -> tuple[int, list[Row]]:
    """Return exit code and findings of `router doctor --json` on a home. `enter`: the beginning of the command."""
    command = [*enter, *program("router", "--home", str(home), "doctor", "--json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def of(rows: Sequence[Row], check: str) -> Row:
    [found] = [one for one in rows if one["check"] == check]
    return found


def made(home: Path, *lines: str) -> Path:
    subprocess.run(program("router", "--home", str(home), "init"), check=True, capture_output=True)
    file = home / "router.toml"
    file.write_text(file.read_text().replace("[node]\n", "[node]\n" + "".join(f"{one}\n" for one in lines), 1))
    return home


async def examined_running(node: NodeProcess, code: int | None = None) -> list[Row]:
    done = await node.run("doctor", "--json")
    assert code is None or done.code == code, done
    found: list[Row] = done.json
    return found


async def test_a_core_and_its_edge_are_well(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        await core.start()
        await edge.start()
        await core.until_connected(edge.address)

        async def is_compared() -> bool:
            return of(await examined_running(core), "clock")["ok"] is True

        await until("the core has compared its clock with its edge's", is_compared)
        rows = await examined_running(core)
        assert all(one.keys() == {"check", "ok", "found", "remedy"} for one in rows)
        for check in ("config", "key", "node", "clock", "port", "tls", "limits", "neighbour"):
            assert of(rows, check)["ok"] is True, rows
        assert "TLS 1.3 with this node's key" in of(rows, "tls")["found"]
        assert "edge is connected" in of(rows, "neighbour")["found"]
        assert of(rows, "address")["ok"] is None and "only this machine reaches it" in of(rows, "address")["found"]
        shown = await edge.run("doctor")
        assert "listens for apps of this machine only" in shown.stdout and "core is connected" in shown.stdout
        assert await core.stop() == 0

        async def is_away() -> bool:
            return of(await examined_running(edge), "neighbour")["ok"] is False

        await until("the edge says that its uplink is away", is_away)
        rows = await examined_running(edge, Exit.FAILED)
        assert "the uplink core is away, heard" in of(rows, "neighbour")["found"]


async def test_a_wrong_clock_is_found(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        edge.move_clock(-2 * DAY_S)
        await core.start()
        await edge.start()

        async def is_found() -> bool:
            return of(await examined_running(edge), "clock")["ok"] is False

        await until("the edge's doctor finds its clock wrong", is_found)
        row = of(await examined_running(edge, Exit.FAILED), "clock")
        assert row["found"].startswith("the clock of this machine is 2.0 days behind its neighbours' clocks: ")
        assert "set it" in row["remedy"] and "clock confirm`" in row["remedy"]


def test_a_clock_behind_the_home_is_found_without_a_node(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    newest = home.stat().st_mtime + 3 * DAY_S
    os.utime(home / "router.toml", (newest, newest))
    code, rows = examined(home)
    assert (code, of(rows, "clock")["ok"]) == (Exit.NO_NODE, False)
    assert "3.0 days behind the newest file of the home" in of(rows, "clock")["found"]


def test_a_port_that_another_program_has_is_found_before_the_start(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        url = f"tls://127.0.0.1:{other.getsockname()[1]}"
        code, rows = examined(made(tmp_path / "home", f'listen = ["{url}"]'))
    assert (code, of(rows, "port")["ok"]) == (Exit.NO_NODE, False)
    assert "another program uses this port" in of(rows, "port")["found"]
    assert of(rows, "port")["remedy"] == "stop it, or choose another port"
    assert of(rows, "node")["ok"] is None and "no node is listening" in of(rows, "node")["found"]


def test_a_name_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    home = made(tmp_path / "home", 'listen = ["tls://127.0.0.1:0"]', 'advertise = ["tls://nowhere.invalid:4100"]')
    row = of(examined(home)[1], "address")
    assert row["ok"] is False and row["found"].startswith("tls://nowhere.invalid:4100 leads nowhere: ")
    assert "mend the entry in DNS" in row["remedy"]


def test_a_name_that_leads_back_to_its_own_machine_is_found(tmp_path: Path) -> None:
    home = made(tmp_path / "home", 'listen = ["tls://0.0.0.0:0"]', 'advertise = ["tls://localhost:4100"]')
    row = of(examined(home)[1], "address")
    assert row["ok"] is False and "leads back to the machine that dials it" in row["found"]
    assert "name an address in node.advertise" in row["remedy"]


async def test_a_port_at_which_another_node_answers_is_found(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        one, two = found.node("one", "core"), found.node("two", "core")
        made(one.home.path, f'listen = ["{two.url}"]')
        await one.start()
        await two.start()
        rows = await examined_running(one, Exit.FAILED)
        answers = {row["ok"]: row["found"] for row in rows if row["check"] == "tls"}
        assert f"with this node's key at {one.url}" in answers[True]
        assert answers[False].startswith(f"at {two.url} answers addr1") and answers[False].endswith(", not this node")
        changed = [row["found"] for row in rows if row["check"] == "port" and row["ok"] is None]
        assert changed == [f"router.toml names {two.url} in node.listen, and the running node does not listen there"]


def test_a_key_that_others_can_read_and_a_broken_configuration_are_found(tmp_path: Path) -> None:
    home = made(tmp_path / "home", 'rolle = "edge"')
    (home / "keys" / "node.key").chmod(0o644)
    _, rows = examined(home)
    assert of(rows, "key")["ok"] is False and "can be read by others" in of(rows, "key")["found"]
    assert "chmod 600" in of(rows, "key")["remedy"]
    assert of(rows, "config")["ok"] is False and "rolle" in of(rows, "config")["found"]


def mounted(command: str) -> tuple[str, ...]:
    """Return the beginning of a command that runs with mounts changed by `command`; skip the test where that is
    forbidden."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    if shutil.which("unshare") is None:
        pytest.skip("mount namespaces need the command `unshare`")
    enter = ("unshare", *user, "--mount", "sh", "-c", f'{command} && exec "$@"', "sh")
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"mounts are not permitted here: {tried.stderr.strip()}")
    return enter


def test_a_read_only_disk_is_found(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    row = of(examined(home, *mounted(f"mount --bind {home} {home} && mount -o remount,bind,ro {home}"))[1], "disk")
    assert row["ok"] is False and row["found"] == f"{home}/store cannot be written: Read-only file system"
    assert "became read-only" in row["remedy"]


def test_a_full_disk_is_found_and_one_in_memory(tmp_path: Path) -> None:
    home = made(tmp_path / "home")
    memory = f"mount -t tmpfs -o size=8m tmpfs {home}/store"
    rows = examined(home, *mounted(f"{memory} && (cat /dev/zero > {home}/store/fill || true)"))[1]
    assert of(rows, "disk")["ok"] is False and of(rows, "sync")["ok"] is None
    assert of(rows, "disk")["found"] == f"{home}/store cannot be written: No space left on device"
    assert of(rows, "disk")["remedy"] == "free some space, or move the home to a larger disk"
    low = of(examined(home, *mounted(memory))[1], "disk")
    assert low["ok"] is False and "less than store.disk_free_bytes_min (256.0 MiB)" in low["found"]
    (home / "router.toml").write_text("[store]\ndisk_free_bytes_min = 0\n")
    lost = of(examined(home, *mounted(memory))[1], "disk")
    assert lost["ok"] is False and "lies in memory (tmpfs)" in lost["found"]


def test_too_few_file_descriptors_are_found(tmp_path: Path) -> None:
    home = made(tmp_path / "home", 'listen = ["tls://127.0.0.1:0"]')
    row = of(examined(home, "sh", "-c", 'ulimit -n 256 && exec "$@"', "sh")[1], "limits")
    assert row["ok"] is False and "enough for 156 connections a listener" in row["found"]
    assert "LimitNOFILE" in row["remedy"]
