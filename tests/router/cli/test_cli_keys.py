"""`init`, `id` and `group`: their output, their files, and their refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from rigs.commands import Run, run_in
from samples.core import INVITATIONS, LINKS

from router.cli import main
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import parse_link
from router.core.wire.text import key_text, parse_key, short


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_init_makes_a_home_and_prints_the_address(router: Run, home: Path) -> None:
    address = lines(router("init", "--role", "core"))[0]
    assert 'role = "core"' in (home / "router.toml").read_text()
    found = json.loads(router("id", "--json").stdout)
    assert found["address"] == parse_key(address, "addr").hex()
    assert lines(router("id")) == [address]


def test_init_again_changes_nothing(router: Run, home: Path) -> None:
    first = json.loads(router("init", "--json").stdout)
    before = (home / "router.toml").read_text()
    second = json.loads(router("init", "--json").stdout)
    assert (first["created"], second["created"]) == (True, False)
    assert first["address"] == second["address"]
    assert (home / "router.toml").read_text() == before


def test_init_says_what_of_the_node_was_there_before(router: Run, home: Path) -> None:
    first, again = router("init"), router("init")
    assert first.stderr == "" and again.stdout == first.stdout
    assert again.stderr == f"a node was at {home} already: its key and router.toml stay as they are\n"
    (home / "router.toml").unlink()
    assert router("init").stderr == f"the key of a node was at {home} already and stays; router.toml is new\n"
    (home / "keys" / "node.key").unlink()
    assert router("init").stderr == f"{home / 'router.toml'} was there already and stays; the key is new\n"
    assert router("init", "--json").stderr == ""


def test_init_says_where_the_node_listens_and_where_others_reach_it(router: Run, home: Path) -> None:
    given = ("--role", "core", "--listen", "tls://0.0.0.0:4101", "--advertise", "tls://hub.example:4101")
    lines(router("init", *given))
    found = json.loads(router("config", "show", "node.advertise", "--json").stdout)
    assert [one["value"] for one in found] == [["tls://hub.example:4101"]]
    lines(router("init", *given))
    for url, said in (
        (
            "tls://other.example:4101",
            'says advertise = ["tls://hub.example:4101"] already; change that line to make it',
        ),
        ("tls://0.0.0.0:4101", "--advertise tls://0.0.0.0:4101: "),
        ("hub", "'hub' is not a transport URL"),
    ):
        refused = router("init", "--advertise", url)
        assert refused.exit_code == 2 and said in refused.stderr, refused.stderr


def test_init_adds_a_service_and_says_what_to_write_into_a_file_that_stands(router: Run, home: Path) -> None:
    assert "one of them" in router("init", "--service", "cap").stderr
    lines(router("init", "--service", "capd"))
    found = json.loads(router("config", "show", "node.services", "--json").stdout)
    assert found[0]["value"] == ["services.discovery", "services.pubsub", "services.capd"]
    lines(router("init", "--service", "capd"))
    refused = router("init", "--service", "dmq")
    assert refused.exit_code == 2 and 'add "services.dmq" to the line services = [...]' in refused.stderr


def test_init_gives_the_node_a_name(router: Run, home: Path) -> None:
    refused = router("init", "--name", "my laptop")
    assert refused.exit_code == 2 and '--name "my laptop" is no name; write 1 to 64 letters' in refused.stderr
    assert not home.exists()
    lines(router("init", "--name", "laptop"))
    lines(router("init", "--name", "laptop"))
    assert json.loads(router("config", "show", "node.name", "--json").stdout)[0]["value"] == "laptop"
    again = router("init", "--name", "tower")
    assert again.exit_code == 2 and 'says name = "laptop" already; change that line to make it "tower"' in again.stderr


def test_init_does_not_change_the_role_of_a_home(router: Run) -> None:
    router("init")
    refused = router("init", "--role", "core")
    assert refused.exit_code == 2
    assert 'says role = "edge" already' in refused.stderr


@pytest.mark.parametrize("place", ["before", "after", "variable"])
def test_the_home_is_named_in_three_ways(place: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    option = ["--home", str(home)]
    if place == "variable":
        monkeypatch.setenv("ROUTER_HOME", str(home))
        option = []
    args = [*option, "group", "new", "g"] if place == "before" else ["group", "new", "g", *option]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0
    assert (home / "router.toml").exists()
    address = CliRunner().invoke(main, ["id", "--home", str(home)]).stdout.strip()
    assert result.stderr == f"there was no node at {home}: made one, {address}\n"


def test_the_inner_home_wins(home: Path, tmp_path: Path) -> None:
    CliRunner().invoke(main, ["--home", str(tmp_path / "outer"), "init", "--home", str(home)])
    assert home.exists()
    assert not (tmp_path / "outer").exists()


def test_a_group_travels_by_its_link(router: Run, tmp_path: Path) -> None:
    [link] = lines(router("group", "new", "family"))
    other = ["--home", str(tmp_path / "other")]
    added = CliRunner().invoke(main, [*other, "group", "add", "-", "--json"], input=link + "\n")
    found = parse_link(link)
    row = {"name": "family", "group": found.group.hex(), "send": True, "check": found.check}
    assert json.loads(added.stdout) == row
    assert lines(router("group", "add", link))[0].endswith(f"  check {found.check}")
    assert lines(router("group", "share", "family")) == [link]
    listed = json.loads(CliRunner().invoke(main, [*other, "group", "list", "--json"]).stdout)
    assert listed == [json.loads(added.stdout)]


def test_a_known_group_is_renamed_and_keeps_what_it_may(router: Run) -> None:
    [link] = lines(router("group", "new", "family"))
    again = router("group", "add", link, "--json")
    assert "kept here as family already" in again.stderr
    reading = lines(router("group", "share", "family", "--read-only"))[0]
    renamed = router("group", "add", reading, "--name", "folks", "--json")
    assert json.loads(renamed.stdout) == {**json.loads(again.stdout), "name": "folks"}
    assert "kept here as family already; it is folks now" in renamed.stderr
    assert lines(router("group", "share", "folks")) == [link]
    assert router("group", "share", "family").exit_code == 2
    router("group", "new", "other")
    taken = router("group", "add", link, "--name", "other")
    assert taken.exit_code == 2 and "is the name of another group" in taken.stderr
    assert lines(router("group", "share", "folks")) == [link]


def test_a_shared_link_names_the_uplinks_or_this_node_where_others_reach_it(
    router: Run, home: Path, tmp_path: Path
) -> None:
    """The link names at most two routers, only if there is a configuration, and none with --no-hints (R-C28)."""
    [link] = lines(router("group", "new", "family"))
    keys = [SigningKey(bytes((n,)) * 32).public for n in range(1, 5)]

    def shared(text: str, *flags: str) -> list[tuple[str, list[str]]]:
        (home / "router.toml").write_text(text)
        found = parse_link(lines(router("group", "share", "family", *flags))[-1])
        assert found.with_hints(()) == parse_link(link)
        return [(key_text("addr", one.router), [each.url for each in one.addresses]) for one in found.hints]

    own = '[node]\nadvertise = ["tls://198.51.100.7:4101"]\n'
    me = lines(router("id"))[0].split()[-1]
    assert shared(own) == [(me, ["tls://198.51.100.7:4101"])]
    peer = '[[peers]]\naddress = "{}"\nuplink = {}\nurls = ["unix:/tmp/x", "tls://core.example:{}"]\n'
    peers = [peer.format(key_text("addr", key), "true" if n else "false", 4101 + n) for n, key in enumerate(keys)]
    up = [(key_text("addr", key), [f"tls://core.example:{4101 + n}"]) for n, key in enumerate(keys)][1:3]
    assert shared(own + "".join(peers)) == up
    assert shared(own + "".join(peers), "--no-hints") == [] == shared("")
    hinted = lines(router("group", "share", "family"))[0]
    other = ["--home", str(tmp_path / "other")]
    CliRunner().invoke(main, [*other, "group", "add", hinted])
    again = CliRunner().invoke(main, [*other, "group", "share", "family"])
    assert again.stdout == hinted + "\n", "a node that can name nobody passes on what the link named"


def test_a_link_that_is_for_reading_only_is_said_to_be(router: Run, tmp_path: Path) -> None:
    router("group", "new", "family")
    link = lines(router("group", "share", "family", "--read-only"))[0]
    other = ["--home", str(tmp_path / "other")]
    CliRunner().invoke(main, [*other, "group", "add", link])
    shared = CliRunner().invoke(main, [*other, "group", "share", "family"])
    assert (shared.exit_code, shared.stdout) == (0, link + "\n")
    assert "for reading only: the right to send to family is not kept here" in shared.stderr
    assert router("group", "share", "family", "--read-only").stderr == ""


def test_a_group_is_found_by_its_key(router: Run) -> None:
    [link] = lines(router("group", "new", "family"))
    name, key, right, check = lines(router("group", "list"))[1].split()
    [listed] = json.loads(router("group", "list", "--json").stdout)
    whole = key_text("group", bytes.fromhex(listed["group"]))
    assert (name, right, key, check) == ("family", "send", short(whole), parse_link(link).check)
    for form in (whole, listed["group"]):
        assert lines(router("group", "share", form)) == [link]


def test_a_read_only_link_lacks_the_sending_key(router: Run) -> None:
    [link] = lines(router("group", "new", "family"))
    found = json.loads(router("group", "share", "family", "--read-only", "--json").stdout)
    assert parse_link(found["link"]) == parse_link(link).read_only()
    assert found["send"] is False


def test_a_qr_code_stands_above_the_link(router: Run) -> None:
    [link] = lines(router("group", "new", "family"))
    *code, last = lines(router("group", "share", "family", "--qr"))
    assert last == link
    assert len(code) > 20
    assert max(map(len, code)) <= 80


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["group", "new", "fam ily"], "cannot be a name"),
        (["group", "share", "famly"], 'did you mean "family"?'),
        (["group", "add", "upsycle:nothing"], "not a group link"),
        (["group", "add", LINKS[0].text()[:-9]], "it is cut short"),
        (["group", "add", INVITATIONS[1].text()], "This is an invitation, not a group link. Take it with `router "),
        (["group", "new", "family"], "there is a group"),
        (["group", "add"], "Missing argument"),
        (["grup"], 'did you mean "group"?'),
        (["--homes", "x"], "--home"),
    ],
)
def test_wrong_usage_is_a_sentence_and_code_2(router: Run, args: list[str], said: str) -> None:
    router("group", "new", "family")
    result = router(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) <= 2
    assert result.stdout == ""


def test_a_home_that_cannot_be_is_code_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["--home", str(tmp_path / "file"), "init"])
    assert result.exit_code == 1
    assert "in the way" in result.stderr or "cannot be written" in result.stderr


READING = [
    ["id"], ["status"], ["peers"], ["queue"], ["queue", "drop", "bob"], ["groups"], ["peer", "list"],
    ["peer", "remove", "bob"], ["group", "list"], ["group", "share", "g"], ["config", "check"], ["config", "show"],
    ["sub", "g", "--as", "me"], ["recv", "--as", "me"], ["pub", "g", "x", "--as", "me"], ["send", "bob", "x"],
]  # fmt: skip


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_without_a_home_nothing_is_made(router: Run, home: Path, args: list[str]) -> None:
    result = router(*args)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"no node at {home}: `router --home {home} init` makes one\n"
    assert not home.exists()


def test_the_chosen_home_is_named_without_an_option(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["status"])
    assert result.stderr == f"no node at {tmp_path}/elsewhere: `router init` makes one\n"


@pytest.mark.parametrize("args", [["group", "add", "nonsense"], ["peer", "add", "bob"], ["serve", "--set", "x"]])
def test_wrong_usage_makes_no_home(router: Run, home: Path, args: list[str]) -> None:
    assert router(*args).exit_code == 2
    assert not home.exists()


def test_an_open_key_file_is_refused(router: Run, home: Path) -> None:
    router("init")
    (home / "keys/node.key").chmod(0o644)
    result = router("id")
    assert result.exit_code == 2
    assert "chmod 600" in result.stderr


def test_verbose_adds_the_traceback(router: Run, home: Path) -> None:
    router("init")
    (home / "keys/node.key").chmod(0o644)
    assert "Traceback" not in router("id").stderr
    assert "Traceback" in router("id", "--verbose").stderr


def test_init_writes_where_to_listen_and_says_who_can_reach_it(router: Run, home: Path) -> None:
    there = router("init", "--role", "core", "--listen", "tls://0.0.0.0:4777")
    assert there.exit_code == 0 and "tls://0.0.0.0:4777" in there.stdout and there.stderr == ""
    assert 'listen = ["tls://0.0.0.0:4777"]' in (home / "router.toml").read_text().splitlines()
    assert router("init", "--listen", "tls://0.0.0.0:4777").exit_code == 0
    other = router("init", "--listen", "tls://0.0.0.0:4778")
    assert other.exit_code == 2 and 'says listen = ["tls://0.0.0.0:4777"] already' in other.stderr
    assert router("init", "--listen", "foo").exit_code == 2


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.cli.output.at_terminal", lambda: True)


def test_init_says_that_a_core_listens_on_this_machine_only(router: Run, at_terminal: None) -> None:
    core = router("init", "--role", "core")
    assert "tls://127.0.0.1:4100" in core.stdout and "other machines cannot reach it there" in core.stderr


def test_an_edge_listens_for_its_own_apps_only(router: Run, at_terminal: None) -> None:
    edge = router("init")
    assert "for apps of this machine only" in edge.stdout and edge.stderr == ""


def test_a_new_group_says_that_its_link_is_a_secret_and_what_to_do_with_it(router: Run, at_terminal: None) -> None:
    made = router("group", "new", "pals")
    assert made.stdout.startswith("upsycle:") and len(made.stdout.splitlines()) == 1
    assert (
        "this link is a secret" in made.stderr
        and "`router group add LINK` there, then `router sub pals` there" in made.stderr
    )


def test_a_link_that_opens_a_known_group_otherwise_is_refused(router: Run, home: Path) -> None:
    """A damaged letter in the content key cannot be detected in the link alone."""
    [text] = lines(router("group", "new", "family"))
    kept = parse_link(text)
    damaged = replace(kept, content_key=bytes(31) + b"x").text()
    for link in (damaged, parse_link(damaged).read_only().text()):
        result = router("group", "add", link)
        assert result.exit_code == 2 and "so one of them is damaged" in result.stderr
    assert lines(router("group", "share", "family")) == [text]
    assert router("group", "add", damaged, "--replace").exit_code == 0
    assert lines(router("group", "share", "family")) == [damaged]
    assert router("group", "add", text, "--replace").exit_code == 0
    assert lines(router("group", "share", "family")) == [text]


@pytest.mark.parametrize(("term", "is_bold"), [("xterm", True), ("dumb", False), ("unknown", False)])
def test_a_table_s_head_is_bold_only_where_the_terminal_knows_it(home: Path, term: str, is_bold: bool) -> None:
    run_in(home)("init")
    run_in(home)("group", "new", "a")
    found = CliRunner(env={"TERM": term}).invoke(main, ["--home", str(home), "group", "list"], color=True)
    assert ("\x1b[1m" in found.stdout) is is_bold and ("\x1b" in found.stdout) is is_bold
