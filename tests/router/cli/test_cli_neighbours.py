"""`peer`: its changes to `router.toml`, and that the running node reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rigs.commands import Run, RunningNode

from router.cli import neighbours
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text, short
from router.settings import config, keyring
from router.settings.config_text import ConfigError

BOB = SigningKey(b"b" * 32).public
BOB_TEXT = key_text("addr", BOB)


def test_a_neighbour_is_written_changed_and_removed(router: Run, home: Path) -> None:
    added = router("peer", "add", BOB_TEXT, "tls://127.0.0.1:4101", "--name", "bob", "--grant", "join,store")
    assert added.exit_code == 0, added.stderr
    [bob] = config.load(home / "router.toml")[0].peers
    assert (bob.address, bob.name, bob.urls) == (BOB, "bob", ("tls://127.0.0.1:4101",))
    assert (bob.grant, bob.uplink) == (("join", "store"), False)

    assert router("peer", "add", "bob", "--uplink").exit_code == 0
    [bob] = config.load(home / "router.toml")[0].peers
    assert (bob.uplink, bob.grant) == (True, ("join", "store"))

    assert router("peer", "remove", BOB.hex()).exit_code == 0
    assert config.load(home / "router.toml")[0].peers == ()


def test_rights_and_the_uplink_are_taken_away_one_by_one(router: Run, home: Path) -> None:
    """The comments in the file stay; taking a right from a blocked neighbour does not unblock it."""
    router("peer", "add", BOB_TEXT, "tls://127.0.0.1:4101", "--name", "bob", "--grant", "join,store,why", "--uplink")
    path = home / "router.toml"
    path.write_text(path.read_text().replace("uplink = true", "uplink = true  # for now"))

    def after(*args: str) -> tuple[tuple[str, ...], bool, bool]:
        result = router("peer", *args)
        assert result.exit_code == 0, result.stderr
        [bob] = config.load(path)[0].peers
        assert (bob.name, bob.urls) == ("bob", ("tls://127.0.0.1:4101",)) and "# for now" in path.read_text()
        return bob.grant, bob.uplink, bob.blocked

    assert after("add", "bob", "--revoke", "join") == (("store", "why"), True, False)
    assert after("add", "bob", "--no-uplink") == (("store", "why"), False, False)
    assert after("block", "bob") == (("store", "why"), False, True)
    assert after("add", "bob", "--revoke", "why,join", "--no-uplink") == (("store",), False, True)
    assert after("add", "bob", "--grant", "join,relay", "--revoke", "relay") == (("join",), False, False)
    assert after("add", "bob", "--grant", "") == ((), False, False)
    assert after("add", "bob", "--grant", "join", "--grant", "store,why") == (("join", "store", "why"), False, False)
    assert after("add", "bob", "--revoke", "join", "--revoke", "why") == (("store",), False, False)
    nobody = router("peer", "add", SigningKey(b"n" * 32).public.hex(), "--revoke", "join")
    assert nobody.exit_code == 2 and "so it has no rights to take away" in nobody.stderr
    assert '"rule" is no right' in router("peer", "add", "bob", "--revoke", "rule").stderr


def test_a_key_is_unblocked_with_what_it_had(router: Run, home: Path) -> None:
    router("peer", "add", BOB_TEXT, "tls://127.0.0.1:4101", "--name", "bob", "--grant", "join,store")
    before = config.load(home / "router.toml")[0].peers
    blocked = router("peer", "block", "bob")
    assert blocked.stderr == f"`router --home {home} peer unblock bob` lets it in again\n"
    said = f"  is shut out; `router --home {home} peer unblock` lets it in again, with the rights join, store\n"
    assert said in router("peer", "list", "bob").stdout
    let_in = router("peer", "unblock", "bob")
    assert let_in.stdout == "bob is blocked no more\n" and config.load(home / "router.toml")[0].peers == before
    said = f"it has the rights join, store; `router --home {home} peer add bob --grant RIGHTS` gives it others\n"
    assert let_in.stderr == said
    again = router("peer", "unblock", "bob")
    said = f"bob is not blocked; `router --home {home} peer list` shows who is\n"
    assert (again.exit_code, again.stderr) == (2, said)
    router("peer", "block", other := key_text("addr", SigningKey(b"o" * 32).public))
    shown = json.loads(router("peer", "unblock", other, "--json").stdout)
    assert (shown["address"], shown["blocked"], shown["grant"], shown["running"]) == (
        SigningKey(b"o" * 32).public.hex(), False, [], False,
    )  # fmt: skip


def test_block_and_let_in_again(router: Run, home: Path) -> None:
    assert router("peer", "block", BOB_TEXT).exit_code == 0
    assert config.load(home / "router.toml")[0].peers[0].blocked
    assert json.loads(router("peer", "list", "--json").stdout)[0]["state"] == "blocked"
    assert router("peer", "add", BOB_TEXT).exit_code == 0
    assert not config.load(home / "router.toml")[0].peers[0].blocked


def test_changes_are_told_as_json(router: Run) -> None:
    said = [
        json.loads(router("peer", *args, "--json").stdout)
        for args in (("add", BOB_TEXT, "--name", "bob", "--grant", "join"), ("block", "bob"), ("remove", "bob"))
    ]
    assert [(one["address"], one["name"], one["blocked"], one["running"]) for one in said] == [
        (BOB.hex(), "bob", False, False), (BOB.hex(), "bob", True, False), (BOB.hex(), "bob", True, False),
    ]  # fmt: skip
    assert (said[0]["grant"], said[0]["urls"], said[0]["uplink"]) == (["join"], [], False)


@pytest.mark.parametrize("act", ["add", "block"])
def test_a_node_is_no_neighbour_of_itself(router: Run, home: Path, act: str) -> None:
    own = router("init").stdout.splitlines()[0]
    result = router("peer", act, own)
    assert result.exit_code == 2
    assert "the node's own address; a neighbour is another node" in result.stderr
    assert config.load(home / "router.toml")[0].peers == ()


def test_kept_keys_are_names_too(router: Run, home: Path) -> None:
    router("init")
    keyring.load_or_create(home, "laptop")
    assert "names are: laptop, node; an address" in router("send", "nobody", "x").stderr


def test_the_list_has_the_contract_s_keys_without_a_node(router: Run) -> None:
    router("peer", "add", BOB_TEXT, "--name", "bob")
    [row] = json.loads(router("peer", "list", "--json").stdout)
    assert row.keys() >= {
        "address", "name", "learned", "urls", "last_contact_s", "rtt_ms", "offset_ms", "state",
    }  # fmt: skip
    assert (row["address"], row["state"]) == (BOB.hex(), "unknown")
    assert f"bob: {BOB_TEXT}" in router("peer", "list", "--all").stdout
    router("peer", "add", BOB_TEXT, "--name", "")
    nameless = router("peer", "list", "--all").stdout.splitlines()
    assert nameless[1].startswith(short(BOB_TEXT)) and BOB_TEXT in nameless


def test_no_two_names_in_the_list_are_alike(router: Run) -> None:
    for end in ("upper-floor", "lower-floor"):
        key = key_text("addr", SigningKey(end[:1].encode() * 32).public)
        router("peer", "add", key, f"tls://{end}.example:1", "--name", f"northern-gatehouse-{end}")
    named = [line.split()[0] for line in router("peer", "list").stdout.splitlines()[1:3]]
    assert len({*named}) == 2 and all(one.startswith("northern") for one in named)


def test_the_list_tells_more_of_those_that_are_named(router: Run) -> None:
    for name, key in (("ann", SigningKey(b"a" * 32).public), ("bob", BOB)):
        router("peer", "add", key_text("addr", key), f"tls://{name}.example:1", "--name", name, "--grant", "join")
    assert len(router("peer", "list").stdout.splitlines()) == 3
    assert router("peer", "list", "bob").stdout.splitlines()[1:] == [
        "bob   unknown  config   -           -  -           -",
        "",
        f"bob: {BOB_TEXT}",
        "  tls://bob.example:1",
        "  has the rights join",
    ]
    found = json.loads(router("peer", "list", BOB_TEXT, "ann", "--json").stdout)
    assert [one["name"] for one in found] == ["bob", "ann"]
    nobody = router("peer", "list", key_text("addr", SigningKey(b"n" * 32).public))
    assert nobody.exit_code == 2 and "is no neighbour; `router" in nobody.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["add", BOB_TEXT[:-1]], "checksum"),
        (["add", "bob"], "neither a name known here"),
        (["add", key_text("group", BOB)], "it is a group"),
        (["add", BOB_TEXT, "127.0.0.1:1"], "not a transport URL"),
        (["add", BOB_TEXT, "tls://host"], "lacks host or port"),
        (["add", BOB_TEXT, "carrier://pigeon"], "no transport for carrier"),
        (["add", BOB_TEXT, "--grant", "everything"], '"everything" is no right'),
        (["add", BOB_TEXT, "--uplink"], "give its URL"),
        (["add", BOB_TEXT, "--name", "b b"], "name"),
        (["remove", BOB_TEXT], "is no peer"),
    ],
)
def test_wrong_usage(router: Run, home: Path, args: list[str], said: str) -> None:
    router("init")
    before = (home / "router.toml").read_text()
    result = router("peer", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert (home / "router.toml").read_text() == before


def test_the_running_node_hears_of_it(at_node: Run, node: RunningNode) -> None:
    assert at_node("peer", "add", BOB_TEXT, "--name", "bob").exit_code == 0
    try:
        states = {one["address"]: one for one in json.loads(at_node("peers", "--json").stdout)}
        assert (states[BOB.hex()]["state"], states[BOB.hex()]["name"]) == ("away", "bob")
        [row] = json.loads(at_node("peer", "list", "--json").stdout)
        assert row["state"] == "away"
    finally:
        assert at_node("peer", "remove", "bob").exit_code == 0
    assert BOB.hex() not in at_node("peers", "--json").stdout


def test_the_list_says_until_when_and_that_it_is_over(router: Run, home: Path) -> None:
    for name, until in (("past", "2026-01-31T18:00Z"), ("coming", "2999-12-31T18:00Z")):
        router("peer", "add", SigningKey(name.encode().ljust(32)).public.hex(), "--name", name, "--grant", "join")
        path = home / "router.toml"
        path.write_text(path.read_text() + f'until = "{until}"\n')
    shown = router("peer", "list", "--all").stdout
    assert "\npast    ended    config " in shown and "\ncoming  unknown  config " in shown
    assert f"ended 2026-01-31 18:00 UTC: it is a stranger since; `router --home {home} peer remove` forgets it" in shown
    assert ", and it had the rights join\n" in shown
    assert "\n  has the rights join until 2999-12-31 18:00 UTC\n" in shown
    found = {one["name"]: one for one in json.loads(router("peer", "list", "--json").stdout)}
    assert [found[name]["state"] for name in ("past", "coming")] == ["ended", "unknown"]
    assert found["past"]["until_s"] == 1_769_882_400


def test_where_the_file_cannot_be_written_it_is_said_what_ended_at_the_node_and_what_did_not(
    at_node: Run, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at_node("peer", "add", BOB_TEXT, "--name", "bob", "--grant", "join").exit_code == 0
    path = Path(node.home) / "router.toml"
    problem = f"{path} cannot be changed: Read-only file system; see that it and its directory may be written"

    def edit(*_: object) -> None:
        raise ConfigError((problem,))

    with monkeypatch.context() as patched:
        patched.setattr(config, "edit_peers", edit)
        blocked, removed = at_node("peer", "block", "bob"), at_node("peer", "remove", "bob")
        patched.setattr(neighbours, "ask", lambda home, word, *_: {"rights": ["join", "store"]})
        of_guest = at_node("peer", "block", "bob"), at_node("peer", "remove", "bob")
    assert blocked.exit_code == 1 and blocked.stderr == (
        f"{BOB_TEXT}: it had no rights by invitation, but until {path} can be written it is not blocked: {problem}\n"
    )
    assert removed.exit_code == 2 and removed.stderr == f"{problem}\n"
    ended = f"{BOB_TEXT}: its rights by invitation (join, store) have ended, but"
    assert [one.exit_code for one in of_guest] == [1, 1]
    assert [one.stderr for one in of_guest] == [
        f"{ended} until {path} can be written it is not blocked: {problem}\n", f"{ended} its entry stays: {problem}\n",
    ]  # fmt: skip
    assert at_node("peer", "remove", "bob").exit_code == 0
