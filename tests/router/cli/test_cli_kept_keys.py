"""`keys` and `leave`, and the announcement of `--as` for a name without a key."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from itertools import count

import pytest
from rigs.commands import ROUTER, Run, RunningNode
from rigs.patience import HANG_S

from router.cli import kept_keys
from router.cli.exits import Exit, Failure
from router.settings import keyring
from router.settings.home import Home

NUMBERS = count()


@pytest.fixture
def group(at_node: Run) -> str:
    name = f"kept{next(NUMBERS)}"
    assert at_node("group", "new", name).exit_code == 0
    return name


def test_a_new_name_is_said_to_make_a_key_and_an_old_one_is_not(at_node: Run, group: str, node: RunningNode) -> None:
    name = f"{group}-laptop"
    first = at_node("sub", group, "--as", name, "--timeout", "0.2")
    assert (
        f'made a new key "{name}", addr1' in first.stderr
        and f"`router --home {node.home} leave GROUP --as {name}`" in first.stderr
    )
    assert "made a new key" not in at_node("sub", group, "--as", name, "--timeout", "0.2").stderr
    typo = at_node("sub", group, "--as", f"{group}-laptpo", "--timeout", "0.2")
    assert f'(did you mean "{name}"?)' in typo.stderr


def test_at_a_terminal_sub_says_that_it_listens(node: RunningNode, group: str) -> None:
    ours, theirs = pty.openpty()
    command = [*ROUTER, "--home", str(node.home), "sub", group, "--as", f"{group}-ann"]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        with os.fdopen(ours, "rb") as said:
            line = next(line for line in said if b"has joined" in line)
            process.terminate()
    assert line.strip().decode() == f"{group}-ann has joined {group}; its messages come here, Ctrl-C ends"
    assert process.returncode == 0


def test_keys_shows_what_each_has_joined_and_leave_ends_it(at_node: Run, group: str, node: RunningNode) -> None:
    name = f"{group}-reader"
    at_node("sub", group, "--as", name, "--timeout", "0.2")
    rows = {one["name"]: one for one in json.loads(at_node("keys", "--json").stdout)}
    key = keyring.load(node.home, name).public
    joined = keyring.find(node.home, group)[1].group.hex()
    assert 0 <= time.time() - rows[name].pop("made_s") < HANG_S
    assert rows[name] == {"name": name, "address": key.hex(), "kind": "app", "former": [], "groups": [joined]} | {
        "prekeys": 0,
        "correspondents": 0,
    }
    assert rows["node"]["kind"] == "node"
    table = at_node("keys").stdout
    assert any(line.split()[0] == name and line.split()[-1] == group for line in table.splitlines())
    assert max(map(len, table.splitlines())) <= 80

    assert at_node("pub", group, "waits for it").exit_code == 0
    kept = at_node("group", "remove", group)
    assert kept.exit_code == Exit.FAILED and f"leave {group} --as {name}`" in kept.stderr
    left = at_node("leave", group, "--as", name)
    assert (left.exit_code, left.stdout) == (0, f"{name} has left {group}\n"), left.stderr
    rows = {one["name"]: one for one in json.loads(at_node("keys", "--json").stdout)}
    assert rows[name]["groups"] == []
    assert at_node("group", "remove", group).exit_code == 0
    assert at_node("group", "remove", group).exit_code == Exit.USAGE
    assert group not in at_node("group", "list").stdout


def test_leave_makes_no_key(at_node: Run, group: str, node: RunningNode) -> None:
    result = at_node("leave", group, "--as", "nobody-here")
    assert result.exit_code == 2 and 'there is no key "nobody-here"' in result.stderr
    assert "nobody-here" not in keyring.names(node.home)


def test_keys_of_a_stopped_node_are_listed_without_groups(router: Run) -> None:
    router("init")
    result = router("keys", "--json")
    assert [(one["name"], one["groups"]) for one in json.loads(result.stdout)] == [("node", None)]
    assert "no node is running" in router("keys").stderr


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_a_likely_typo_is_asked_about(
    router: Run, home: object, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    router("init")
    place = Home(str(home))
    keyring.load_or_create(place, "laptop")
    asked: list[str] = []

    def confirm(text: str, *, err: bool) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr("sys.stdin", TERMINAL)
    monkeypatch.setattr("sys.stderr", TERMINAL)
    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr(kept_keys, "note", asked.append)
    if answer:
        kept_keys.check_name(place, "laptpo")
    else:
        with pytest.raises(Failure, match="give --as laptop"):
            kept_keys.check_name(place, "laptpo")
    assert asked[0] == 'there is no key "laptpo", but one "laptop"; make a new one'
    assert ("laptpo" in keyring.names(place)) is answer


class Terminal:
    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


TERMINAL = Terminal()


def test_a_damaged_state_is_told_of_by_each_command_with_the_same_sentence_and_code(
    at_node: Run, node: RunningNode, group: str
) -> None:
    keyring.load_or_create(Home(node.home), "broken")
    state = node.home / "apps" / "broken.state"
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    (state / "data.mdb").write_bytes(b"rubbish\n" * 2000)
    cause, remedy = f"the state in {state} cannot be opened", "to begin anew, stop the app and move it away"
    listed = at_node("keys").stderr
    assert listed.count(cause) == 1 and remedy in listed
    for command in (("send", "broken", "x"), ("pub", group, "x"), ("recv", "--journal", str(node.home / "journal"))):
        ran = at_node(*command[:1], "--as", "broken", *command[1:])
        assert ran.exit_code == Exit.FAILED and cause in ran.stderr and remedy in ran.stderr, ran.stderr
    heard = at_node("recv", "--as", "broken", "--timeout", "0.5").stderr
    assert heard.count(cause) == 1 and "wait at the node" in heard
    examined = at_node("doctor").stdout
    assert f"BAD  app           {cause}" in examined and "to begin anew" in examined
