"""`router invite`: links are made, listed and revoked on a running node, which never has their secret."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from rigs.commands import Run, RunningNode

from router.cli.invite import LISTED, list_table, removable, revoked_text, why_unreached
from router.cli.output import columns
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import GroupLink
from router.core.wire.invitation import LIFE_S_MAX, RIGHTS, Invitation, parse_peer_link
from router.core.wire.lifetime import expiry_s
from router.settings import keyring
from router.settings.config_peers import Peer
from router.settings.home import Home

HOME_NOTE = "that link leads back to this machine"


def made(at_node: Run, *options: str) -> tuple[dict[str, Any], Invitation]:
    result = at_node("invite", "--json", *options)
    assert result.exit_code == 0, result.output
    row = json.loads(result.stdout.splitlines()[-1])
    found = parse_peer_link(row["link"])
    assert isinstance(found, Invitation)
    return row, found


def listed(at_node: Run, id: str) -> dict[str, Any]:
    return next(one for one in json.loads(at_node("invite", "list", "--json").stdout) if one["id"] == id)


def test_a_link_says_where_and_with_which_rights_and_is_listed(at_node: Run, node: RunningNode) -> None:
    row, link = made(at_node, "--name", "home", "--uses", "3", "--grant", "join,why", "--expires", "2h")
    assert (row["uses"], row["grants"], row["id"]) == (3, ["join", "why"], link.id.hex())
    assert link.inviter == keyring.load(Home(node.home), keyring.NODE).public
    assert [one.url for one in link.addresses] == [url for url in node.ready["listeners"] if url.startswith("tls")]
    assert link.name == "home" and not link.has_expired(time.time()) and link.has_expired(time.time() + 2 * 3600 + 61)
    found = listed(at_node, row["id"])
    assert (found["uses"], found["used"], found["guests"], found["state"]) == (3, 0, [], "open")
    assert found["expires"] == row["expires"] and row["id"][:8] in at_node("invite", "list").stdout


def test_the_widest_row_of_the_list_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"id": "ab" * 16, "name": "n" * 60, "grants": list(RIGHTS), "used": 1000, "uses": 1000, "state": "open"}
    widest = {**one, "expires_s": LIFE_S_MAX}
    columns(LISTED, list_table([widest, {**widest, "state": "used-up", "name": None}], 1), "")
    _, first, second = capsys.readouterr().out.splitlines()
    assert first == "abababab  nnnnnnnnnnnnn…  join,store,relay,why  1000/1000  open     3659 d 23 h"
    assert second == "abababab  -               join,store,relay,why  1000/1000  used-up  -" and len(first) <= 80


def test_defaults_are_one_use_seven_days_and_the_rights_of_a_guest(at_node: Run) -> None:
    result = at_node("invite")
    link = parse_peer_link(result.stdout)
    assert isinstance(link, Invitation) and link.rights == ("join", "store", "relay") and link.group is None
    assert link.has_expired(time.time() + 7 * 86_400 + 61) and not link.has_expired(time.time() + 6.9 * 86_400)
    assert HOME_NOTE in result.stderr and "secret" not in result.stderr, "a script is not told what a person is"
    assert f"invitation {link.id.hex()[:8]}: it lets in one guest until {ended(link)}\n" in result.stderr
    two = at_node("invite", "--uses", "2", "--until", "30d")
    link = parse_peer_link(two.stdout)
    assert isinstance(link, Invitation)
    [listed] = [one for one in json.loads(at_node("invite", "list", "--json").stdout) if one["id"] == link.id.hex()]
    keep = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(listed["until_s"]))
    said = f"it lets in 2 guests until {ended(link)}; they keep their rights until {keep}\n"
    assert f"invitation {link.id.hex()[:8]}: {said}" in two.stderr


def ended(link: Invitation) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expiry_s(link.expiry_min)))


def test_a_group_comes_with_the_link_and_is_made_if_there_is_none(at_node: Run, node: RunningNode) -> None:
    _, link = made(at_node, "--group", "friends")
    kept = keyring.groups(Home(node.home))["friends"]
    assert link.group == kept and kept.seed is not None
    _, reading = made(at_node, "--group", "friends", "--read-only")
    assert reading.group == GroupLink(kept.group, kept.content_key, None, "friends")
    unlike = at_node("invite", "--group", "freinds")
    assert unlike.exit_code == 2 and "friends" in unlike.stderr, "a misspelled name makes no group"
    impossible = at_node("invite", "--group", "close friends")
    assert impossible.exit_code == 2 and '"close friends" cannot be a name; a name has' in impossible.stderr


def test_a_node_that_listens_for_nobody_else_says_so_before_it_invites(tmp_path: Path) -> None:
    home = Home(tmp_path)
    said = why_unreached(("unix:///run/router.sock",), home)
    assert said.startswith("this node listens for apps of its own machine only, so no guest reaches it; name a URL in")
    assert f"node.listen of {tmp_path}/router.toml, like tls://0.0.0.0:4100" in said
    assert why_unreached(("unix:///run/router.sock", "tls://0.0.0.0:4100"), home) == ""


def test_revoked_by_the_beginning_of_its_id(at_node: Run) -> None:
    row, _ = made(at_node)
    assert row["id"][:8] in at_node("invite", "revoke", row["id"][:8]).stdout
    assert listed(at_node, row["id"])["state"] == "revoked"
    again = at_node("invite", "revoke", row["id"], "--json")
    assert json.loads(again.stdout) == {"revoked": row["id"], "guests": 0, "blocked": 0, "removed": []}
    unknown = at_node("invite", "revoke", "zz")
    assert unknown.exit_code == 1 and "`router --home" in unknown.stderr and "invite list" in unknown.stderr


@pytest.mark.parametrize(
    ("guests", "blocked", "removes", "said"),
    [
        (0, 0, False, ""),
        (1, 0, False, "; 1 guest of it is still let in, and `router peer remove` removes one"),
        (2, 1, False, "; 2 guests of it are still let in, and `router peer remove` removes one; 1 guest stays blocked"),
        (2, 0, True, "; 2 guests of it are removed"),
        (0, 2, True, "; 2 guests stay blocked"),
    ],
)
def test_what_is_said_of_the_guests_of_a_revoked_invitation(
    guests: int, blocked: int, removes: bool, said: str
) -> None:
    found = {"revoked": "ab" * 16, "guests": guests, "blocked": blocked, "removed": []}
    assert revoked_text(found, removes) == f"the invitation abababab is revoked{said}"


def test_the_code_is_drawn_and_the_picture_is_private_and_new(at_node: Run, tmp_path: Path) -> None:
    picture = tmp_path / "invitation.png"
    result = at_node("invite", "--png", str(picture), "--qr", "--at", "tls://core.example.org:4100")
    assert result.exit_code == 0 and "█" in result.stdout
    assert picture.stat().st_mode & 0o077 == 0 and picture.read_bytes().startswith(b"\x89PNG")
    link = parse_peer_link(result.stdout.splitlines()[-1])
    assert isinstance(link, Invitation) and [one.url for one in link.addresses] == ["tls://core.example.org:4100"]
    before = at_node("invite", "list", "--json").stdout
    for option, path, code, said in (
        ("--png", picture, 2, "exists already; name another file"),
        ("--svg", tmp_path / "none" / "code.svg", 1, "none; make that directory"),
        ("--svg", tmp_path, 2, "takes the name of a new file"),
    ):
        again = at_node("invite", "--group", "unheard-of", option, str(path))
        assert (again.exit_code, again.stdout) == (code, "") and said in again.stderr
        assert "there was no group" not in again.stderr, "nothing was made"
    assert at_node("invite", "list", "--json").stdout == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--grant", "join,fly"), '"fly" is no right; rights are join, store, relay, why'),
        (("--grant", ""), "it grants nothing"),
        (("--expires", "7"), '"7" is no time span like 30m, 12h, 7d or 2w'),
        (("--expires", "0d"), '"0d" is no time span'),
        (("--until", "99999w"), "of at most ten years"),
        (("--uses", "0"), "0 is not in the range 1<=x<=1000"),
        (("--read-only",), "--read-only needs a --group"),
        (("--at", "tls://0.0.0.0:1"), "--at tls://0.0.0.0:1: "),
        (("--at", "here"), "'here' is not a transport URL"),
        (("--at", "10.0.0.1:4100"), "'10.0.0.1:4100' is not a transport URL; write for example tls://host:4101"),
        (("--at", "tls://a.example.org:1", "--name", "n" * 64, *(
            part for n in range(7) for part in ("--at", f"tls://a-very-long-name-of-a-host-{n}.example.org:4100")
        )), "leave out addresses"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_the_node_is_asked(
    at_node: Run, options: tuple[str, ...], said: str
) -> None:
    before = at_node("invite", "list", "--json").stdout
    result = at_node("invite", *options)
    assert result.exit_code == 2 and said in result.stderr, result.stderr
    assert at_node("invite", "list", "--json").stdout == before


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (("tls://127.0.0.1:4100",), "that link leads back to this machine: only nodes that run here can use it"),
        (
            ("tls://192.168.1.20:1", "tls://127.0.0.1:1"),
            "that link leads into a private network: only nodes there can use it",
        ),
        (("tls://192.168.1.20:1", "tls://a.example.org:1"), ""),
    ],
)
def test_an_address_that_few_can_reach_is_said_to(at_node: Run, at: tuple[str, ...], said: str) -> None:
    told = at_node("invite", *(part for url in at for part in ("--at", url))).stderr.splitlines()
    assert told[:-1] == ([f"{said}; for others, give another address by --at"] if said else [])


def test_a_node_that_does_not_run_invites_nobody(router: Run, home: Path) -> None:
    assert router("invite").exit_code == 3
    router("init")
    assert router("invite", "--at", "tls://core.example.org:4100").exit_code == 3
    assert router("invite", "--at", "tls://core.example.org:4100", "--group", "friends").exit_code == 3
    assert not keyring.groups(Home(home)), "no group is made for an invitation that there is not"
    assert router("invite", "list").exit_code == 3
    (home / "router.toml").write_text("[limits]\nstrangers_connections_max = 0\n")
    refused = router("invite")
    assert refused.exit_code == 2 and "strangers_connections_max is 0" in refused.stderr


def test_a_blocked_guest_stays_blocked_when_its_invitation_is_revoked() -> None:
    """Without its entry it could come as a stranger."""
    blocked, guest, other = (SigningKey(bytes([number] * 32)).public for number in range(3))
    peers = (Peer(address=blocked, blocked=True), Peer(address=guest), Peer(address=other))
    assert removable(peers, [guest, blocked]) == [guest]
