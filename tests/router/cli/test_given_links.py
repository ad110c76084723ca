"""The links that `router peer add` and `router group add` find in a mail, a file or standard input; and the messages if
there is none."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import Result
from conftest import Run
from samples.invitations import FRIENDS, invitation

from router.core.wire.crypto import SigningKey
from router.core.wire.link_text import links_in
from router.settings import config, received
from router.settings.home import Home

GIVEN = invitation(until_s=time.time() + 86_400)
TEXT = GIVEN.text()
OTHER = invitation(until_s=time.time() + 86_400, secret=b"o" * 16).text()
GROUP = FRIENDS.text()
QUOTED = "\r\n> ".join(TEXT[at : at + 72] for at in range(0, len(TEXT), 72))
SOFT = "=\n".join(TEXT[at : at + 75] for at in range(0, len(TEXT), 75))
AGAIN = "Copy the whole link again, from upsycle: to its last letter.\n"
NEITHER = "This is not an invitation or the link of a node"


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert TEXT[20:60] not in result.output and GROUP[20:60] not in result.output, "the secret is shown"
    return result.stderr


@pytest.mark.parametrize(
    "mail",
    [
        f"Hi Bob,\n\nhere is the link:\n\n  {TEXT}\n\nSee you, Ann\n", f"Here: <{TEXT}>, as you asked", f'"{TEXT}"',
        f"{TEXT}.", f"{TEXT}\nSee you", f"Ann wrote:\n> Hi Bob\n>\n> {QUOTED}\n>\n> See you\n", f"Hi Bob,\n{SOFT}\nAnn",
        f"{GROUP}\n\nis the group, and this lets you in: {TEXT}", f"{TEXT} and once more {TEXT}",
    ],
)  # fmt: skip
def test_a_link_is_found_in_the_mail_around_it(router: Run, home: Path, mail: str) -> None:
    for given, stdin in (("-", mail), (mail, None)):
        assert router("peer", "add", given, "--yes", stdin=stdin).exit_code == 5
        assert [one.invitation() for one in received.received(home)] == [GIVEN]
        received.drop(Home(home), GIVEN.id)


def test_a_home_that_is_made_for_a_link_runs_the_services_of_a_new_node(router: Run, home: Path) -> None:
    assert router("peer", "add", TEXT, "--yes").exit_code == 5
    made = (home / "router.toml").read_text()
    (home / "router.toml").unlink()
    assert router("init").exit_code == 0 and made.startswith((home / "router.toml").read_text())
    node = config.load(home / "router.toml")[0].node
    assert node.services == ("services.discovery", "services.pubsub") and node.services_public == ("discovery",)


def test_a_long_mail_is_searched_and_only_its_first_links_are_looked_at() -> None:
    assert links_in("word " * 50_000 + TEXT) == [TEXT]
    assert links_in(f"{TEXT}\n{OTHER}\n{GROUP}") == [TEXT, OTHER, GROUP]
    assert links_in("upsycle: " * 16 + TEXT) == []


EMPTY = "standard input is empty: copy the whole link, from upsycle: to its last letter\n"
WRONG: dict[str, tuple[tuple[str, ...], str | None, str]] = {
    "nothing": (("peer", "add", "-"), "", EMPTY),
    "blanks": (("group", "add", "-"), " \n\n", EMPTY),
    "an empty name": (
        ("peer", "add", ""), None,
        "no name and no address is given; names are: node; an address is addr1… or 64 hex digits; a link "
        "begins with upsycle:\n",
    ),
    "an empty link": (
        ("group", "add", ""), None, f"This is not a group link: it does not begin with upsycle:. {AGAIN}",
    ),
    "a mail without one": (("peer", "add", "-"), "Dear all,\n", f"{NEITHER}: it does not begin with upsycle:. {AGAIN}"),
    "cut in a mail": (("peer", "add", "-"), f"Hi {TEXT[:90]} Ann", f"{NEITHER}: it is cut short. {AGAIN}"),
    "changed in a mail": (
        ("peer", "add", "-"), f"Hi\n{TEXT[:40]}~{TEXT[41:]}\nAnn",
        f"{NEITHER}: it is damaged, letters of it are changed. {AGAIN}",
    ),
    "two in a mail": (
        ("peer", "add", "-"), f"{TEXT}\nor\n{OTHER}",
        "standard input holds 2 links (the link of a node, an invitation): give the one that is meant\n",
    ),
    "a group's in a mail": (
        ("peer", "add", "-"), f"Hi\n{GROUP}\n",
        "This is a group link, not an invitation or the link of a node. Take it with `router {home}group add LINK`.\n",
    ),
    "an invitation in a mail": (
        ("group", "add", "-"), f"Hi\n{TEXT}\n",
        "This is an invitation, not a group link. Take it with `router {home}peer add LINK`.\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_holds_no_link_says_so(router: Run, home: Path, what: str) -> None:
    router("init")
    command, stdin, said = WRONG[what]
    assert refused(router(*command, stdin=stdin)) == said.replace("{home}", f"--home {home} ")


@pytest.mark.parametrize("verb", ["peer", "group"])
def test_what_is_no_file_to_read_is_named_and_not_waited_for(router: Run, tmp_path: Path, verb: str) -> None:
    pipe, long = tmp_path / "pipe", tmp_path / "long.txt"
    os.mkfifo(pipe)
    long.write_text("a letter\n" * 1000)
    for path, said in (
        (tmp_path, "is a directory; name the file that holds the link, or a picture of it\n"),
        (pipe, "is no regular file; to read the link from a pipe, give - and redirect it\n"),
        (long, "is neither a link nor a PNG or JPEG picture\n"),
        (tmp_path / "none.png", "is no link, and there is no such file\n"),
    ):
        assert refused(router(verb, "add", str(path))) == f"{path} {said}"


def test_a_key_in_a_mail_is_no_link(router: Run) -> None:
    router("init")
    said = refused(router("peer", "add", f"key {SigningKey(b'x' * 32).public.hex()}"))
    assert said.endswith("an address is addr1… or 64 hex digits; a link begins with upsycle:\n")
