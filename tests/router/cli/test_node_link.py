"""A node's own link: its contents, and that another node accepts it as a text or a picture."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import Result
from rigs.commands import Run, run_in

from router.core.wire.address import parse_address
from router.core.wire.advert import Advertisement, make_advertisement
from router.core.wire.crypto import SigningKey
from router.core.wire.invitation import parse_peer_link
from router.core.wire.lifetime import expiry_min
from router.service.running import key_of
from router.settings.config import load
from router.settings.home import Home

KEY = SigningKey(b"n" * 32)
URL = "tls://192.168.1.20:4100"
LATER = expiry_min(time.time() + 3600)


def made(path: Path, *lines: str) -> Run:
    run = run_in(path)
    assert run("init").exit_code == 0
    file = path / "router.toml"
    file.write_text(file.read_text().replace("[node]\n", "[node]\n" + "".join(f"{one}\n" for one in lines), 1))
    return run


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    return result.stderr


def link_to(*urls: str, expires: int = LATER) -> str:
    return make_advertisement(KEY, map(parse_address, urls), rev=1, expiry_min=expires).text()


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (['listen = ["tls://192.168.1.20:4100"]'], [URL]),
        (['listen = ["tls://127.0.0.1:4100", "tls://192.168.1.20:4100"]'], [URL]),
        (['listen = ["tls://127.0.0.1:4100"]'], ["tls://127.0.0.1:4100"]),
        (['listen = ["tls://0.0.0.0:4100"]', 'advertise = ["tls://192.168.1.20:4100"]'], [URL]),
        (['listen = ["tls://10.0.0.1:4100"]', 'advertise = ["tls://a.org:1"]'], ["tls://a.org:1"]),
        (['listen = ["tls://0.0.0.0:4100"]'], None),
        ([], None),
    ],
)
def test_it_names_where_others_reach_the_node(tmp_path: Path, lines: list[str], named: list[str] | None) -> None:
    run = made(tmp_path / "home", *lines)
    if named is None:
        assert "name an address they reach it at in node.advertise" in refused(run("id", "--link"))
        return
    found = json.loads(run("id", "--link", "--json").stdout)
    said = parse_peer_link(found["link"])
    assert [one.url for one in said.addresses] == named
    assert parse_peer_link(run("id", "--link").stdout).router.hex() == found["address"]  # type: ignore[union-attr]


def test_a_new_core_samples_and_its_link_names_its_discovery_service(tmp_path: Path) -> None:
    """The link's revision is the lowest, so it gives way to the advertisements of the running node."""
    run = run_in(tmp_path)
    assert run("init", "--role", "core", "--listen", URL).exit_code == 0
    config, _ = load(tmp_path / "router.toml")
    assert config.node.services == ("services.discovery", "services.pubsub")
    assert config.node.services_public == ("discovery", "pubsub")
    assert config.services == {"discovery": {"sampling": True}, "pubsub": {"mode": "overlay"}}
    found = parse_peer_link(run("id", "--link").stdout.strip())
    assert isinstance(found, Advertisement) and found.rev == 0
    assert dict(found.services) == {name: key_of(Home(tmp_path), name).public for name in ("discovery", "pubsub")}


def test_another_node_takes_it_from_a_picture_a_text_and_standard_input(tmp_path: Path) -> None:
    core = made(tmp_path / "core", f'listen = ["{URL}"]')
    png = tmp_path / "core.png"
    shown = core("id", "--png", str(png))
    link = shown.stdout.strip()
    assert "holds the code; it is no secret" in shown.stderr
    for at, (given, stdin) in enumerate(
        ((str(png), None), (link, None), ("-", link.encode()), ("-", png.read_bytes()))
    ):
        edge = made(tmp_path / f"edge-{at}")
        assert edge("peer", "add", given, "--uplink", "--name", "core", stdin=stdin).exit_code == 0
        [row] = json.loads(edge("peer", "list", "--json").stdout)
        assert (row["name"], row["urls"], row["uplink"]) == ("core", [URL], True)
        assert row["address"] == json.loads(core("id", "--json").stdout)["address"]
    assert "this is the node's own address" in refused(core("peer", "add", link))


def test_its_time_does_not_count_for_a_person(tmp_path: Path) -> None:
    assert made(tmp_path / "home")("peer", "add", link_to(URL, expires=1)).exit_code == 0


def test_a_link_that_leads_back_to_this_machine_is_said_to(tmp_path: Path) -> None:
    added = made(tmp_path / "home")("peer", "add", link_to("tls://127.0.0.1:4100"))
    assert added.exit_code == 0 and "it works only for a node that runs here" in added.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (link_to("tls://0.0.0.0:4100"), "that node cannot be dialled: 0.0.0.0:4100 names no host"),
        (link_to("ws://a.org/x"), "that node cannot be dialled: 'ws://a.org/x' leads off this machine without TLS"),
        (link_to(URL)[:60], "it is cut short"),
        ("none.png", "none.png is no link, and there is no such file"),
        ("/nonexist.png", "/nonexist.png is no link, and there is no such file"),
        ("none/link", "none/link is no link, and there is no such file"),
        ("none", '"none" is neither a name known here nor an address'),
    ],
)  # fmt: skip
def test_one_that_is_of_no_use_says_why(tmp_path: Path, given: str, said: str) -> None:
    run = made(tmp_path / "home")
    assert said in refused(run("peer", "add", given))
    assert json.loads(run("peer", "list", "--json").stdout) == []


def test_a_file_named_like_a_neighbour_is_not_taken_for_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "laptop").write_text("notes")
    run = made(tmp_path / "home")
    assert run("peer", "add", link_to(URL), "--name", "laptop").exit_code == 0
    assert run("peer", "add", "laptop", "--grant", "join").exit_code == 0


def test_what_others_cannot_reach_is_found_by_the_check(tmp_path: Path) -> None:
    urls = (
        "http://a.org:1",
        "unix:router.sock",
        "tls://a.org",
        "quic://a.org/x",
        "tls://0.0.0.0:1",
        "tls://224.0.0.1:1",
    )
    for url in urls:
        checked = made(tmp_path / url.replace("/", "-"), f'advertise = ["{url}"]')("config", "check")
        assert checked.exit_code == 2 and "node.advertise: " in checked.output, checked.output
    nine = ", ".join(f'"tls://a.org:{port}"' for port in range(1, 10))
    run = made(tmp_path / "nine", f"advertise = [{nine}]")
    assert "node.advertise names 9 addresses; at most 8 fit a link" in run("config", "check").output
    assert run("id", "--link").exit_code == 0


def test_a_file_without_a_dot_in_its_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "newtype").write_text(link_to(URL))
    run = made(tmp_path / "home")
    assert run("peer", "add", "newtype").exit_code == 0
    assert [one["urls"] for one in json.loads(run("peer", "list", "--json").stdout)] == [[URL]]
