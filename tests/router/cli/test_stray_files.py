"""Files among the groups and keys that hold none: they are named on standard error, and the rest is listed and used."""

from __future__ import annotations

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rigs.commands import ROUTER, run_in
from rigs.patience import HANG_S
from samples.invitations import FRIENDS

from router.settings import keyring

STRAY = {"groups/notes.txt": "hello\n", "groups/empty": "", "keys/old.key": "", "keys/short.key": "00" * 31}


def test_commands_and_node_go_on_beside_stray_files(home: Path) -> None:
    router = run_in(home)
    router("init")
    router("group", "new", "own")
    for name, text in STRAY.items():
        (home / name).touch(0o600)
        (home / name).write_text(text)
    node = subprocess.Popen(
        [*ROUTER, "serve", "--json", "--home", home], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert node.stdout is not None and json.loads(node.stdout.readline())["role"] == "edge"
        for command in (
            ("group", "list"),
            ("group", "new", "another"),
            ("group", "add", FRIENDS.text()),
            ("groups",),
            ("peers",),
            ("keys",),
            ("send", "service-pubsub", "hello"),
        ):
            found = router(*command)
            assert found.exit_code == 0, (command, found.output)
        assert sorted(keyring.groups(home)) == ["another", "friends", "own"]
        done = subprocess.run(
            [*ROUTER, "--home", home, "group", "list"], capture_output=True, text=True, timeout=HANG_S, check=True
        )
        assert done.stdout.count("\n") == 4
        assert all(
            f"{home}/groups/{name} should hold a whole group link" in done.stderr for name in ("empty", "notes.txt")
        )
        assert done.stderr.count("\n") == 2
        done = subprocess.run(
            [*ROUTER, "--home", home, "keys"], capture_output=True, text=True, timeout=HANG_S, check=True
        )
        assert "service-pubsub" in done.stdout and "old" not in done.stdout
        assert all(f"{home}/keys/{name}.key should hold a key" in done.stderr for name in ("old", "short"))
    finally:
        node.send_signal(signal.SIGTERM)
        said = node.communicate(timeout=HANG_S)[1]
    assert node.returncode == 0
    assert all(f"{home / name} should hold a" in said for name in STRAY)


def test_group_new_run_many_times_at_once_prints_only_the_link_that_is_kept(home: Path) -> None:
    run_in(home)("init")
    command = [*ROUTER, "--home", str(home), "group", "new", "a", "--json"]

    def run(_: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(4)))
    (made,) = [one for one in found if one.returncode == 0]
    assert json.loads(made.stdout)["link"] == keyring.groups(home)["a"].text()
    said = f'there is a group "a" already; `router --home {home} group share a` prints its link\n'
    assert [(one.returncode, one.stderr) for one in found if one is not made] == [(2, said)] * 3
