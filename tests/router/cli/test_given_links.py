"""The links that `router peer add` and `router group add` find in a mail, a file or standard input; and the messages if
there is none."""

from __future__ import annotations

import base64
import codecs
import os
import quopri
import time
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import Result
from rigs.commands import Run
from samples.invitations import FRIENDS, invitation

from router.cli.given_link import link_from
from router.core.wire.crypto import SigningKey
from router.core.wire.link_text import INVITATION, links_in
from router.settings import config, keyring, received
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


def quoted_printable(text: str) -> str:
    """Return the text as an encoder writes it that encodes dashes, too."""
    return quopri.encodestring(text.encode()).decode().replace("-", "=2D").replace("_", "=5F")


ENCODED: dict[str, Callable[[str], bytes]] = {
    "UTF-8 with a byte order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16, little end first": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16, big end first": lambda text: codecs.BOM_UTF16_BE + f"Here:\r\n{text}\r\n".encode("utf-16-be"),
    "signs without width": lambda text: "\u200b".join(text[at : at + 40] for at in range(0, len(text), 40)).encode(),
    "soft hyphens": lambda text: f"\u2060{text[:50]}\u00ad{text[50:]}\u200e".encode(),
    "hyphens that do not break": lambda text: text.replace("-", "\u2011").encode(),
    "quoted-printable": lambda text: quoted_printable(f"Hi Bob,\nhere: {text}\nAnn\n").encode(),
    "a redirecting link": lambda text: b"https://filter.example/?url=" + quote(text).encode() + b"&data=05%7C02",
    "a link redirected twice": lambda text: b"<https://filter.example/?u=" + quote(quote(text)).encode() + b">",
    "a mail in base64": lambda text: (
        b"Subject: x\nContent-Transfer-Encoding: base64\nContent-Type: text/plain; charset=utf-8\n\n"
        + base64.encodebytes(f"The link:\n{text}\nAnn".encode())
    ),
    "a mail of parts": lambda text: mail_of_parts(text),
}


def mail_of_parts(text: str) -> bytes:
    mail = EmailMessage()
    mail["Subject"] = "x"
    mail.set_content(f"The link:\n{text}\nGrüße", cte="base64")
    mail.add_alternative(f'<p>The link: <a href="{text}">here</a> Grüße', subtype="html", cte="base64")
    return mail.as_bytes()


@pytest.mark.parametrize("how", ENCODED)
def test_a_link_is_found_however_mail_and_editors_write_it(router: Run, home: Path, tmp_path: Path, how: str) -> None:
    file = tmp_path / "link.txt"
    file.write_bytes(ENCODED[how](GROUP))
    for given, stdin in ((str(file), None), ("-", file.read_bytes())):
        found = router("group", "add", given, stdin=stdin)
        assert found.exit_code == 0 and keyring.groups(home) == {"friends": FRIENDS}, found.output
    (home / "groups" / "friends").unlink()
    file.write_bytes(ENCODED[how](TEXT))
    assert router("peer", "add", str(file), "--yes").exit_code == 5
    assert [one.invitation() for one in received.received(home)] == [GIVEN]


def test_the_headers_of_a_mail_may_nest_as_deep_as_a_stranger_likes(tmp_path: Path) -> None:
    file = tmp_path / "mail"
    for kind in (b"text/plain; " + b"(" * 3000, b"text/" + b"(" * 3000 + b"plain", b'text/plain; a="' + b'\\"' * 3000):
        head = b"Content-Transfer-Encoding: base64\nContent-Type: " + kind + b"\n\n"
        file.write_bytes(head + base64.encodebytes(TEXT.encode()))
        assert link_from(str(file), INVITATION) == TEXT


def test_a_group_s_file_may_be_written_by_an_editor(home: Path) -> None:
    keyring.add_group(home, "a", FRIENDS)
    for how in ("UTF-8 with a byte order mark", "UTF-16, little end first", "soft hyphens", "signs without width"):
        (home / "groups" / "a").write_bytes(ENCODED[how](GROUP))
        assert keyring.groups(home) == {"a": FRIENDS}, how


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


@pytest.mark.parametrize("verb", ["peer", "group"])
def test_a_directory_here_is_named_as_one(
    router: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    (tmp_path / "links").mkdir()
    monkeypatch.chdir(tmp_path)
    said = "links is a directory; name the file that holds the link, or a picture of it\n"
    assert refused(router(verb, "add", "links")) == said


def test_a_key_in_a_mail_is_no_link(router: Run) -> None:
    router("init")
    said = refused(router("peer", "add", f"key {SigningKey(b'x' * 32).public.hex()}"))
    assert said.endswith("an address is addr1… or 64 hex digits; a link begins with upsycle:\n")
