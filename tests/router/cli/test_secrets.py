"""Secrets: no error repeats a link, one on the command line brings advice, and no node writes a core dump."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

import pytest
from rigs.commands import Run, RunningNode
from samples.core import ADVERTISEMENTS
from samples.invitations import FRIENDS, invitation

from router.cli import output
from router.core.wire.text import BadText, parse_key, quoted, without_links
from router.settings import keyring

LINK, NODE = FRIENDS.text(), ADVERTISEMENTS[0].text()
INVITATION = invitation(until_s=time.time() + 86_400).text()
COMMANDS = [
    "why", "send", "peer block", "peer remove", "queue drop", "status", "keys", "group new", "sub g --as",
    "sub --since", "init --name", "init --listen", "peer add ab", "dmq verify", "capd get", "audit", "serve --set",
    "sub --count", "xx",
]  # fmt: skip
WAYS = [LINK, quote(LINK), INVITATION[:60], LINK[:50] + "\u200b" + LINK[50:], LINK.upper()]


def repeats(text: str, link: str) -> bool:
    return any(link[at : at + 12] in text for at in range(len("upsycle%3A"), len(link) - 12))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_error_says_a_link_instead_of_repeating_it(router: Run, command: str) -> None:
    router("init")
    for link in WAYS:
        for verbose in ((), ("--verbose",)):
            found = router(*command.split(), link, *verbose)
            assert found.exit_code and not repeats(found.output, link), (link, found.output)
            assert "a link" in found.stderr or command not in ("why", "send", "peer block", "status", "dmq verify")


@pytest.mark.parametrize("link", WAYS)
def test_errors_of_the_api_do_not_repeat_a_link(tmp_path: Path, link: str) -> None:
    with pytest.raises(BadText) as bad:
        parse_key(link, "addr")
    with pytest.raises(keyring.KeyringError) as unknown:
        keyring.load(tmp_path, link)
    assert str(bad.value).startswith("a link is not an address: ") and str(unknown.value).startswith("a link cannot be")
    assert quoted(link) == "a link" and quoted("alice\n") == '"alice"'
    assert without_links(f"Path '{link}' does not exist (upsycle: is no link)") == (
        "Path a link does not exist (upsycle: is no link)"
    )


def test_a_secret_link_on_the_command_line_brings_advice_at_a_terminal(
    router: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "history" not in router("group", "add", LINK).stderr, "scripts do not see it"
    monkeypatch.setattr(output, "at_terminal", lambda: True)
    file = tmp_path / "link.txt"
    file.write_text(LINK)
    seen = "a link on the command line stays in the shell's history, and others on this machine may see it there; "
    other_ways = "give - and the link on standard input, or put it into a file and give that\n"
    for command in (("group", "add", LINK), ("peer", "add", INVITATION, "--yes", "--timeout", "0")):
        assert seen + other_ways in router(*command).stderr
    for reading in (("sub", LINK), ("pub", LINK, "hello")):
        assert f"{seen}keep its group by `router " in router(*reading).stderr
    for unseen, stdin in ((("group", "add", "-"), LINK), (("group", "add", str(file)), None)):
        assert seen not in router(*unseen, stdin=stdin).stderr
    assert seen not in router("peer", "add", NODE).stderr, "the link of a node is no secret"


def test_a_node_writes_no_core_dump(node: RunningNode) -> None:
    limits = Path(f"/proc/{node.ready['pid']}/limits").read_text().splitlines()
    assert next(one.split()[4:6] for one in limits if one.startswith("Max core file size")) == ["0", "0"]
