"""`config check`, `config show` and `--set`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import trio
from rigs.commands import Run

from router.cli.config import overrides
from router.core.wire.crypto import SigningKey
from router.doctor.command import examine
from router.doctor.finding import Finding
from router.settings.home import Home
from router.settings.keyring import load_or_create

DEAF = """
from router.service import Service

class Plain(Service):
    def on_message(self, message): pass

class Idle(Service):
    pass
"""


def test_a_new_home_is_in_order(router: Run) -> None:
    router("init")
    result = router("config", "check")
    assert result.exit_code == 0
    assert "is in order" in result.stdout
    assert json.loads(router("config", "check", "--json").stdout)["ok"] is True


def test_a_home_without_a_file_is_told_what_holds(router: Run, home: Path) -> None:
    router("init")
    (home / "router.toml").unlink()
    result = router("config", "check")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"there is no {home / 'router.toml'}: every setting has its default")
    [judged] = [one for one in trio.run(examine, Home(home))[0] if one.check == "config"]
    assert judged.ok and judged.found.startswith("there is no ")


def test_every_mistake_is_found(router: Run, home: Path) -> None:
    router("init")
    (home / "router.toml").write_text('[node]\nacept = "known"\n[link]\nping_s = "often"\n')
    result = router("config", "check")
    assert result.exit_code == 2
    assert "router.toml line 2: unknown key `node.acept`; did you mean `accept`?" in result.stderr
    assert "router.toml line 4" in result.stderr
    found = router("config", "check", "--json")
    assert found.exit_code == 2
    assert len(json.loads(found.stdout)["problems"]) == 2


@pytest.mark.parametrize(
    ("mode", "public", "words"),
    [
        ("overlay", '["pubsub"]', ()),
        ("leaf", "[]", ()),
        ("overlay", "[]", ('services_public does not name "pubsub"', '; add "pubsub" to node.services_public')),
        ("leaf", '["pubsub"]', ("strangers may send", '; take "pubsub" out of node.services_public')),
    ],
)
def test_a_service_warns_of_who_may_send_to_it(
    router: Run, home: Path, mode: str, public: str, words: tuple[str, ...]
) -> None:
    router("init")
    text = f'[node]\nservices = ["services.pubsub"]\nservices_public = {public}\n[services.pubsub]\nmode = "{mode}"\n'
    (home / "router.toml").write_text(text)
    result = router("config", "check")
    assert result.exit_code == 0 and ("is in order" in result.stdout) is not bool(words)
    assert all(word in result.stderr for word in words)
    found = json.loads(router("config", "check", "--json").stdout)
    assert found["ok"] and not found["problems"]
    assert [f"{one}\n" for one in found["warnings"]] == ([result.stderr] if words else [])
    judged = [one for one in trio.run(examine, Home(home))[0] if one.check == "services"]
    assert [(one.ok, f"{one.found}; {one.remedy}") for one in judged] == [(False, one) for one in found["warnings"]]


def test_a_neighbour_whose_url_leads_to_this_node_is_warned_of(router: Run, home: Path) -> None:
    router("init")
    other = SigningKey(b"o" * 32).public.hex()
    near, far = '"tls://localhost:4101", "tls://node.example:4101", "tls://localhost:4102"', '"tls://0.0.0.0:4101"'
    (home / "router.toml").write_text(f'[node]\nlisten = [{far}]\n[[peers]]\naddress = "{other}"\nurls = [{near}]\n')
    result = router("config", "check")
    said = "peers[0].urls: tls://localhost:4101 leads to this node itself, not to a neighbour"
    assert (result.exit_code, result.stderr) == (0, f"{said}; name the address of the other node's machine\n")
    assert ("neighbour", False, said) in list(map(_row, trio.run(examine, Home(home))[0]))


def test_a_neighbour_whose_web_socket_leads_to_this_node_is_warned_of(router: Run, home: Path) -> None:
    router("init")
    other = SigningKey(b"o" * 32).public.hex()
    text = '[node]\nlisten = ["ws://127.0.0.1:4190"]\n[[peers]]\naddress = "{}"\nurls = ["ws://localhost:4190/link"]\n'
    (home / "router.toml").write_text(text.format(other))
    assert "ws://localhost:4190/link leads to this node itself, not to a neighbour" in router("config", "check").stderr
    (home / "router.toml").write_text('[node]\nlisten = ["ws://0.0.0.0:4190"]\n')
    assert "line 2: node.listen: 'ws://0.0.0.0:4190' leads off this machine" in router("config", "check").output
    (home / "router.toml").write_text('[node]\nlisten = ["wss://:4190"]\n')
    assert "names no certificate to show; write wss://HOST:PORT?certificate=" in router("config", "check").output
    result = router("serve", "--listen", "wss://:4190?certificate=/none.pem&key=/none.pem")
    assert "/none.pem cannot be read: no such file or directory; name the files" in result.stderr


def _row(one: Finding) -> tuple[str, bool | None, str]:
    return one.check, one.ok, one.found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[node]\nlisten = ["tls://host"]\n', "line 2: node.listen: 'tls://host' lacks host or port"),
        ('[node]\nlisten = ["tls://999.1.1.1:1"]\n', "'999.1.1.1' in 'tls://999.1.1.1:1' is neither an IP address nor"),
        ('[node]\nlisten = ["carrier://pigeon"]\n', "there is no transport for carrier"),
        (f'[node]\nlisten = ["unix:{"s" * 120}"]\n', "name a shorter one"),
        ('[node]\nservices = ["services.ehco"]\n', "line 2: the service services.ehco of node.services cannot"),
        ('[node]\nservices = ["broken_service"]\n', "ZeroDivisionError"),
        ('[node]\nservices = ["deaf_service:Plain"]\n', "has an on_message that is not async"),
        ('[node]\nservices = ["deaf_service:Idle"]\n', "has neither on_message nor on_connected"),
        (
            "[node]\nrole = core\n",
            'line 2, column 8: a value is missing, or is none that TOML knows; write text in quotes: "core"',
        ),
        ('[[peers]]\naddress = "ADDRESS"\nurls = ["tls://host"]\n', "line 3: peers[0].urls: 'tls://host' lacks"),
        ('[[peers]]\naddress = "OWN"\n', "line 2: peers[0].address: this is the node's own address"),
    ],
)
def test_serve_and_check_find_the_same(
    router: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    own = json.loads(router("init", "--json").stdout)["address"]
    other = SigningKey(b"o" * 32).public.hex()
    (home / "router.toml").write_text(text.replace("OWN", own).replace("ADDRESS", other))
    (tmp_path / "broken_service.py").write_text("1 / 0\n")
    (tmp_path / "deaf_service.py").write_text(DEAF)
    monkeypatch.syspath_prepend(tmp_path)
    checked, served = router("config", "check"), router("serve", "--verifiers", "0")
    assert (checked.exit_code, served.exit_code) == (2, 2)
    assert checked.stderr == served.stderr
    assert said in checked.stderr
    assert len(checked.stderr.splitlines()) == 1


def opened_to_others(key: Path) -> None:
    key.chmod(0o644)


def spoilt(key: Path) -> None:
    key.write_text("no key\n")


def replaced_by_a_directory(key: Path) -> None:
    key.unlink()
    key.mkdir()


@pytest.mark.parametrize("name", ["node", "service-echo"])
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (opened_to_others, "can be read by others (mode 644); run: chmod 600"),
        (spoilt, "should hold a key"), (replaced_by_a_directory, "cannot be read: Is a directory; it must be a file"),
    ],
)  # fmt: skip
def test_check_says_which_keys_serve_would_refuse(
    router: Run, home: Path, harm: Callable[[Path], None], said: str, name: str
) -> None:
    router("init")
    other = SigningKey(b"o" * 32).public.hex()
    (home / "router.toml").write_text(f'[node]\nservices = ["services.echo"]\n[[peers]]\naddress = "{other}"\n')
    load_or_create(Home(home), name)
    assert router("config", "check").exit_code == 0
    harm(home / "keys" / f"{name}.key")
    checked, served = router("config", "check"), router("serve", "--verifiers", "0")
    assert (checked.exit_code, served.exit_code != 0) == (2, True)
    assert said in checked.stderr and said in served.stderr
    assert len(checked.stderr.splitlines()) == 1


def test_a_seed_of_discovery_that_is_none_is_found_before_serve(router: Run, home: Path) -> None:
    router("init")
    named = '[node]\nservices = ["services.discovery"]\n[services.discovery]\n'
    (home / "router.toml").write_text(named + 'seeds = ["upsycle:AAAA"]\n')
    for command in (("config", "check"), ("serve",)):
        result = router(*command)
        assert result.exit_code == 2
        assert result.stderr == (
            "router.toml line 4: services.discovery.seeds[0]: This is not an invitation or the link of a node: it is "
            "damaged, letters of it are changed. Copy the whole link again, from upsycle: to its last letter.\n"
        )


@pytest.mark.parametrize("args", [("serve",), ("config", "show"), ("peer", "list")])
def test_nothing_runs_on_a_broken_configuration(router: Run, home: Path, args: tuple[str, ...]) -> None:
    router("init")
    (home / "router.toml").write_text("[nod]\n")
    result = router(*args)
    assert result.exit_code == 2
    assert "did you mean `node`?" in result.stderr


def test_show_says_where_a_value_came_from(router: Run, home: Path) -> None:
    router("init")
    (home / "router.toml").write_text("[link]\nping_s = 7.5\n")
    rows = {one["name"]: one for one in json.loads(router("config", "show", "link", "--json").stdout)}
    assert (rows["link.ping_s"]["value"], rows["link.ping_s"]["origin"]) == (7.5, "router.toml")
    assert rows["link.dials_max"]["origin"] == "default"
    text = router("config", "show", "link.ping_s").stdout.splitlines()
    assert text[1].split() == ["link.ping_s", "7.5", "router.toml"]
    assert router("config", "show", "nothing").exit_code == 2


def test_a_setting_of_seconds_may_name_another_unit(router: Run, home: Path) -> None:
    router("init")
    (home / "router.toml").write_text('[defaults]\nttl_s = "5d"\n')
    [row] = json.loads(router("config", "show", "defaults.ttl_s", "--json").stdout)
    assert row["value"] == 432_000
    (home / "router.toml").write_text('[defaults]\nttl_s = "5 days"\n')
    said = 'it must be a number of seconds, or of another unit in quotes, like "90m", "12h" or "5d"'
    assert f'router.toml line 2: defaults.ttl_s is "5 days"; {said}' in router("config", "check").output


def test_overrides_are_toml_or_text() -> None:
    given = ("link.ping_s=10", "node.accept=known", 'node.listen=["tls://:1"]', "store.durability = unsynced")
    assert overrides(given) == {
        "link.ping_s": 10,
        "node.accept": "known",
        "node.listen": ("tls://:1",),
        "store.durability": "unsynced",
    }


@pytest.mark.parametrize("pair", ["link.ping_s", "ping_s=3", ".x=1", "link.=1"])
def test_an_override_without_a_name_is_refused(pair: str) -> None:
    with pytest.raises(click.BadParameter, match=r"section\.name=value"):
        overrides((pair,))
