"""`pub` and `send` through an uplink report within a second whether anybody gets the message, or that it is not known
yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from rigs.commands import Run, run_in, start_node, stop_node
from rigs.ports import free_port

from router.cli import waiting_messages
from router.cli.ask import ask
from router.cli.exits import Exit
from router.cli.output import problems
from router.core.wire.crypto import SigningKey
from router.core.wire.invitation import parse_peer_link
from router.core.wire.text import key_text
from router.settings import keyring
from router.settings.home import Home


class Pair(NamedTuple):
    """An edge and the core that is its uplink, both running, and a function that stops the core."""

    edge: Run
    core: Run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    homes = [Home(tmp_path_factory.mktemp(name) / "home") for name in ("core", "edge")]
    core, edge = (run_in(home.path) for home in homes)
    core("init"), edge("init")  # no core of the overlay, which would look for readers elsewhere
    addresses = [key_text("addr", keyring.load(home, keyring.NODE).public) for home in homes]
    core("peer", "add", addresses[1], "--name", "edge", "--grant", "join,store,relay")
    at_core, ready = start_node(homes[0].path, "--listen", "tls://127.0.0.1:0", "--verifiers", "0")
    url = next(one for one in ready["listeners"] if one.startswith("tls:"))
    edge("peer", "add", addresses[0], url, "--name", "hub", "--uplink")
    at_edge, _ = start_node(homes[1].path, "--verifiers", "0")
    edge("group", "new", "friends")
    core("group", "add", edge("group", "share", "friends").stdout.strip())
    until_connected(homes[1])
    yield Pair(edge, core)
    codes = [stop_node(at_edge), stop_node(at_core)]
    assert codes == [0, 0]


def until_connected(home: Home) -> None:
    for _ in range(1000):
        if any(one["name"] == "hub" and one["state"] == "connected" for one in ask(home, "peers")):
            return
    raise AssertionError("the edge did not link to its uplink")


def test_a_group_that_nobody_has_joined_behind_the_uplink_ends_with_4(pair: Pair) -> None:
    one = pair.edge("pub", "friends", "anybody?")
    assert one.exit_code == 4 and one.stdout.startswith("msg1")
    assert "was refused by hub (addr1" in one.stderr and "no-subscribers: nobody has joined" in one.stderr
    several = pair.edge("pub", "friends", "a", "b")
    assert several.exit_code == 4 and len(several.stdout.splitlines()) == 2
    assert "the messages after it are probably refused" in several.stderr


def test_a_group_that_somebody_has_joined_ends_with_0(pair: Pair) -> None:
    assert pair.core("sub", "friends", "--as", "listener", "--timeout", "0.2").exit_code == 5
    one = pair.edge("pub", "friends", "hello", "again")
    assert (one.exit_code, one.stderr) == (0, "")
    assert len(one.stdout.splitlines()) == 2


def test_tables_fit_80_columns(pair: Pair) -> None:
    lost = SigningKey(b"l" * 32).public.hex()
    assert pair.edge("peer", "add", lost, "tls://127.0.0.1:1", "--name", "lost", "--grant", "join,store").exit_code == 0
    for command in (("peers",), ("peer", "list"), ("groups",), ("queue",), ("keys",), ("group", "list")):
        table = pair.edge(*command).stdout
        assert max(map(len, table.splitlines()), default=0) <= 80, table
    blocked = pair.edge("peer", "block", "lost")
    assert blocked.stdout == "lost is blocked\n"
    assert blocked.stderr.startswith("`router --home ") and blocked.stderr.endswith(
        " peer unblock lost` lets it in again\n"
    )
    assert pair.edge("peer", "remove", "lost").stdout == "lost is no neighbour any more\n"


def test_an_address_that_nobody_knows_ends_with_4(pair: Pair) -> None:
    result = pair.edge("send", key_text("addr", SigningKey(b"n" * 32).public), "hello")
    assert result.exit_code == 4 and "no-route" in result.stderr
    plain = pair.edge("send", key_text("addr", SigningKey(b"n" * 32).public), "hello", "--plain")
    assert plain.exit_code == 4 and "was refused by hub" in plain.stderr


def test_the_core_reaches_an_app_of_the_edge_that_has_never_written(pair: Pair) -> None:
    assert pair.edge("recv", "--as", "reader", "--timeout", "0.2").exit_code == 5
    kept = json.loads(pair.edge("keys", "--json").stdout)
    reader = next(one["address"] for one in kept if one["name"] == "reader")
    for _ in range(1000):  # its introduction may still be on the way
        if (sent := pair.core("send", reader, "hello", "--plain")).exit_code != 4:
            break
    assert (sent.exit_code, sent.stderr) == (0, "")
    assert pair.edge("recv", "--as", "reader", "--count", "1").stdout == "hello\n"


def test_a_message_to_a_router_names_what_to_send_to_instead(pair: Pair) -> None:
    for result in (pair.edge("send", "hub", "hello"), pair.core("send", "edge", "hello", "--plain")):
        assert result.exit_code == 2 and "is a neighbour's router" in result.stderr
        assert "`router keys` there lists them" in result.stderr


def test_while_the_uplink_is_away_it_is_said_to_be_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "home")
    edge = run_in(home.path)
    edge("init"), edge("group", "new", "friends")
    edge("peer", "add", SigningKey(b"h" * 32).public.hex(), "tls://127.0.0.1:1", "--name", "hub", "--uplink")
    process, _ = start_node(home.path, "--verifiers", "0")
    result = edge("pub", "friends", "hello")
    with monkeypatch.context() as patched:
        patched.setattr(waiting_messages, "input_at_terminal", lambda: True)
        patched.setattr(waiting_messages, "at_terminal", lambda: True)
        kept = edge("peer", "remove", "hub")
    [still] = json.loads(edge("queue", "--json").stdout)
    removed = edge("peer", "remove", "hub")
    assert stop_node(process) == 0
    assert kept.exit_code == Exit.INTERRUPTED and "1 message for hub waits here; to keep what waits" in kept.stderr
    assert (still["name"], still["messages"], kept.stdout) == ("hub", 1, "")
    assert "1 message for hub waits here and will end: dropped, reason left; to keep what waits" in removed.stderr
    assert removed.stdout == "hub is no neighbour any more; 1 message that waited for it has ended\n"
    assert result.exit_code == 0
    assert "it is not known yet whether anybody gets it" in result.stderr and "waits for hub" in result.stderr
    assert f"why {result.stdout.strip()}` tells later" in result.stderr


def test_problems_stand_below_the_table_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    problems([("ann", None), ("lost", "port \x1bshut"), ("bob", "")])
    assert capsys.readouterr().out == "\nlost: port shut\n"


def test_a_core_announces_a_move_and_its_edge_shows_it(pair: Pair) -> None:
    there = f"tls://127.0.0.1:{free_port()}"
    bad = {
        ("move", "tls://0.0.0.0:1"): "names no host",
        ("move", "tls://new"): "lacks host or port",
        ("move", "nonsense"): "nonsense",
        ("move", "--since", "2h"): "no URL is given",
        ("move", there, "--since", "soon"): "(UTC), or in how long, 2d or 90m",
        ("move", there, "--forget", there): "not both",
        ("move", there, "--since", "2400d"): "a year ahead",
        ("move", "--forget", there): "is not announced",
    }
    for command, why in bad.items():
        refused = pair.core(*command)
        assert refused.exit_code != 0 and why in refused.stderr, (command, refused.stderr)
    [url] = json.loads(pair.core("status", "--json").stdout)["listeners"][-1:]
    assert "names no address to others" in pair.edge("move", there).stderr
    told = pair.core("move", there, "--since", "2h")
    assert told.exit_code == 0 and "next" in told.stdout and "here" in told.stdout, told.stderr
    assert f"{there}, from " in pair.core("status").stdout
    invited = parse_peer_link(json.loads(pair.core("invite", "--json").stdout)["link"])
    assert [one.url for one in invited.addresses] == [url, there], "who comes by it before or after finds the core"
    assert [one["state"] for one in json.loads(pair.core("move", "--forget", there, "--json").stdout)["places"]] == [
        "here"
    ]
    assert there not in pair.core("move").stdout


def test_a_move_to_where_another_router_is_is_refused_with_its_key(pair: Pair, tmp_path: Path) -> None:
    other, ready = start_node(tmp_path / "other", "--listen", "tls://127.0.0.1:0", "--verifiers", "0")
    try:
        url = next(one for one in ready["listeners"] if one.startswith("tls:"))
        refused = pair.core("move", url)
        assert refused.exit_code == 2 and key_text("addr", bytes.fromhex(ready["address"])) in refused.stderr
        assert "another router answers" in refused.stderr and "give another address" in refused.stderr
    finally:
        assert stop_node(other) == 0


def test_rights_that_are_taken_away_say_what_ends_with_them(tmp_path: Path) -> None:
    """Without `join` what waits of groups ends, without `store` all that waits."""
    node, tom = run_in(tmp_path / "home"), SigningKey(b"t" * 32).public
    assert node("init").exit_code == 0
    process, _ = start_node(tmp_path / "home", "--verifiers", "0")
    changed = [
        node("peer", "add", tom.hex(), "--name", "tom", "--grant", "join,store,why"),
        node("send", "tom", "hello", "--plain"),
        node("peer", "add", "tom", "--revoke", "why"),
        node("peer", "add", "tom", "--revoke", "join"),
        node("peer", "add", "tom", "--revoke", "store", "--json"),
        node("peer", "add", "tom", "--grant", "join"),
    ]
    assert stop_node(process) == 0
    assert {one.exit_code for one in changed} == {0}, [one.stderr for one in changed]
    *_, kept, of_groups, ended, nothing = changed
    assert (kept.stdout, kept.stderr) == ("tom is changed\n", "")
    said = "1 message for tom waits here, and what of them is of a group will end: dropped, reason left\n"
    assert (of_groups.stdout, of_groups.stderr) == ("tom is changed\n", said)
    assert "1 message for tom waits here and will end: dropped, reason left" in ended.stderr
    assert json.loads(ended.stdout)["ended_messages"] == 1
    assert (nothing.stdout, nothing.stderr) == ("tom is changed\n", "")
