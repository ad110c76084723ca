"""The reader of all links: damage by mailers, and each way in which a text is not the wanted link."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ADVERTISEMENTS, INVITATIONS, LINKS

from router.core.wire.codec import encode, head
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import GroupLink, parse_link
from router.core.wire.invitation import Invitation, parse_peer_link
from router.core.wire.link_beginning import BYTES_OF
from router.core.wire.link_text import (
    ADVERTISEMENT,
    GROUP,
    INVITATION,
    LINK_CHARACTERS_MAX,
    SCHEME,
    TYPES,
    is_link,
    read_link,
    text_from,
    write_link,
)
from router.core.wire.text import BadText

TEXTS = {
    ADVERTISEMENT: ADVERTISEMENTS[0].text(),
    GROUP: LINKS[0].text(),
    INVITATION: INVITATIONS[1].text(),
}
AGAIN = "Copy the whole link again, from upsycle: to its last letter."


def link_of(value: Any) -> str:
    return SCHEME + urlsafe_b64encode(encode(value)).rstrip(b"=").decode()


def said_of(text: str, *wanted: int) -> str:
    with pytest.raises(BadText) as caught:
        read_link(text, *wanted)
    return str(caught.value)


@pytest.mark.parametrize("kind", TYPES)
def test_what_mailers_do_is_undone(kind: int) -> None:
    text = TEXTS[kind]
    broken = "\r\n  ".join(text[at : at + 30] for at in range(0, len(text), 30))
    spaced = "".join(f"{one}\u00a0\t\n" for one in text)
    upper, lower_later = text.replace("upsycle", "UPSYCLE"), text.replace("upsycle:", "uPsYcLe:\n")
    widthless = "\u200b".join(text[at : at + 20] for at in range(0, len(text), 20))
    quoted = "> > " + "\r\n> > ".join(text[at : at + 72] for at in range(0, len(text), 72))
    soft = "=\n".join(text[at : at + 75] for at in range(0, len(text), 75))
    encoded = ["".join(f"{sign}{ord(one):02X}" for one in text) for sign in ("%", "%25", "=")]
    dashes = text.replace("-", "\u2011").replace("_", "=5f")
    around = [f"<{text}>", f'"{text}"', f"\ufeff{text}\u2060", text.replace(":", "%3a"), text.replace(":", "%253A")]
    for changed in (
        broken, spaced, f" {text}\n", upper, lower_later, widthless, quoted, soft, *encoded, dashes, *around
    ):  # fmt: skip
        assert is_link(changed) and read_link(changed, kind) == read_link(text, kind), changed
        assert read_link(changed, kind)[0] == kind


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_from_reads_what_editors_write(encoding: str) -> None:
    assert text_from("Grüße: upsycle:".encode(encoding)) == "Grüße: upsycle:"
    assert text_from("x".encode("utf-16-be")) == "\0x" and text_from(b"\xfe\xff\0x") == "x"
    assert text_from(b"\xff\xfe\0") == text_from(b"\xff") == "\ufffd", "what is damaged is no error here"


ALL = [*TEXTS.items(), *((GROUP, one.text()) for one in LINKS), *((INVITATION, one.text()) for one in INVITATIONS)]


@pytest.mark.parametrize(("kind", "text"), ALL)
def test_a_link_that_is_cut_anywhere_says_so(kind: int, text: str) -> None:
    for end in range(len(text)):
        cause = "it is cut short" if end >= len(SCHEME) else "it does not begin with upsycle:"
        assert said_of(text[:end], kind) == f"This is not {TYPES[kind].noun}: {cause}. {AGAIN}"


@pytest.mark.parametrize("text", [TEXTS[ADVERTISEMENT], TEXTS[INVITATION]])
def test_with_any_byte_changed_a_signed_link_is_said_to_be_damaged_and_never_sent_to_another_command(text: str) -> None:
    raw = urlsafe_b64decode(text[len(SCHEME) :] + "==")
    for at, byte in enumerate(raw):
        for other in {byte ^ 1, byte ^ 2, byte ^ 128, byte ^ 255}:
            changed = raw[:at] + bytes((other,)) + raw[at + 1 :]
            with pytest.raises(BadText) as caught:
                parse_peer_link(SCHEME + urlsafe_b64encode(changed).rstrip(b"=").decode())
            said = str(caught.value)
            assert said.endswith(AGAIN)
            assert any(cause in said for cause in ("letters of it are changed", "it is cut short", "Install a newer"))
            assert "Install a newer" not in said or at == 1, "only the byte of the type can tell of a newer one"


LETTERS = "AZaz09-_ =+/.ü\x00"


@pytest.mark.parametrize("each", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("text", [TEXTS[ADVERTISEMENT], *(one.text() for one in INVITATIONS)])
def test_a_signed_link_with_any_letter_changed_is_refused(text: str, each: int) -> None:
    """A place gets one in `each` of the letters, its neighbour the next ones."""
    for at, letter in enumerate(text):
        for other in LETTERS[at % each :: each] + chr(ord(letter) ^ 1):
            changed = text[:at] + other + text[at + 1 :]
            if changed.lower().startswith(SCHEME) and changed[len(SCHEME) :] == text[len(SCHEME) :]:
                continue
            with pytest.raises(BadText) as caught:
                parse_peer_link(changed)
            assert text[20:40] not in str(caught.value)


@pytest.mark.parametrize("link", LINKS)
def test_a_group_link_with_any_letter_changed_is_refused_or_opens_another_group_or_content(link: GroupLink) -> None:
    """The link has no signature and, if it is read-only, no part that its content key must match."""
    text, others = link.text(), 0
    for at, letter in enumerate(text[len(SCHEME) :], len(SCHEME)):
        for other in set("AZaz09-_=") - {letter}:
            try:
                found = parse_link(text[:at] + other + text[at + 1 :])
            except BadText as error:
                assert text[20:40] not in str(error)
            else:
                others += 1
                assert found != link
                assert found.group == link.group or link.seed is None
    assert others


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    (
        ("", (GROUP,), f"This is not a group link: it does not begin with upsycle:. {AGAIN}"),
        ("https://example.org", (INVITATION,), f"This is not an invitation: it does not begin with upsycle:. {AGAIN}"),
        (TEXTS[GROUP][8:], (GROUP,), f"This is not a group link: it does not begin with upsycle:. {AGAIN}"),
        ("upsycle:", (GROUP,), f"This is not a group link: it is cut short. {AGAIN}"),
        ("upsycle:nothing", (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (TEXTS[GROUP] + "A", (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (TEXTS[GROUP] + "=", (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (TEXTS[GROUP] * 2, (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (SCHEME + "A" * 505, (GROUP,), f"This is not a group link: it has 513 characters; 512 are the most. {AGAIN}"),
        (SCHEME + "A" * 5000, (GROUP,), f"This is not a group link: it has 5008 characters; 512 are the most. {AGAIN}"),
        (link_of([True, {}]), (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (link_of([2]), (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (link_of({}), (GROUP,), f"This is not a group link: it is damaged, letters of it are changed. {AGAIN}"),
        (
            link_of([4, {"x": [1.5]}]),
            (INVITATION, ADVERTISEMENT),
            "This link is of type 4, which this version does not know. Install a newer version, or, if it should be an "
            f"invitation or the link of a node: {AGAIN}",
        ),
        (
            TEXTS[INVITATION],
            (GROUP,),
            "This is an invitation, not a group link. Take it with `router peer add LINK`.",
        ),
        (
            TEXTS[ADVERTISEMENT],
            (GROUP,),
            "This is the link of a node, not a group link. Take it with `router peer add LINK`.",
        ),
        (
            TEXTS[GROUP],
            (INVITATION, ADVERTISEMENT),
            "This is a group link, not an invitation or the link of a node. Take it with `router group add LINK`.",
        ),
    ),
)  # fmt: skip
def test_each_way_not_to_be_the_wanted_link(text: str, wanted: tuple[int, ...], said: str) -> None:
    assert said_of(text, *wanted) == said


@given(st.text(max_size=60), st.booleans())
def test_any_text_gives_a_link_or_bad_text(text: str, with_scheme: bool) -> None:
    with pytest.raises(BadText):
        read_link(SCHEME + text if with_scheme else text, GROUP, INVITATION, ADVERTISEMENT)


@given(st.binary(max_size=80))
def test_any_bytes_give_a_link_or_bad_text(raw: bytes) -> None:
    text = SCHEME + urlsafe_b64encode(raw).rstrip(b"=").decode()
    try:
        kind, fields = read_link(text, GROUP, INVITATION, ADVERTISEMENT)
    except BadText:
        return
    assert encode([kind, fields]) == raw


def test_a_text_that_would_be_too_long_says_what_to_leave_out() -> None:
    assert write_link(GROUP, b"\xa0") == link_of([2, {}])
    longest = encode(bytes(373))
    assert len(write_link(GROUP, longest)) == LINK_CHARACTERS_MAX
    with pytest.raises(
        BadText, match=r"^The link would have 514 characters, and 512 are the most: leave out the name\.$"
    ):
        write_link(GROUP, encode(bytes(374)), leave_out="the name")


def test_what_begins_like_a_link() -> None:
    assert all(map(is_link, ("upsycle:", " UPSYCLE:x", *TEXTS.values())))
    assert not any(map(is_link, ("", "friends", "upsycle", SigningKey(bytes(32)).public.hex())))


def test_no_secret_in_what_is_shown() -> None:
    invitation = parse_peer_link(TEXTS[INVITATION])
    assert isinstance(invitation, Invitation) and invitation.group is not None
    for one in (invitation, invitation.group, *LINKS):
        for secret in (invitation.secret, invitation.group.content_key, invitation.group.seed or b""):
            assert secret.hex() not in repr(one) and repr(secret)[2:-1] not in repr(one)


@pytest.mark.parametrize(("kind", "text"), ALL)
def test_a_changed_letter_in_a_length_is_called_damage_and_not_a_cut(kind: int, text: str) -> None:
    raw = urlsafe_b64decode(text[len(SCHEME) :] + "==")
    for name, size in BYTES_OF.items():
        at = raw.find(bytes((0x60 | len(name),)) + name.encode() + head(size))
        if at < 0:
            continue
        at += 1 + len(name) + len(head(size)) - 1
        for other in {raw[at] | 0x41, raw[at] | 0x80, raw[at] + 1}:
            changed = raw[:at] + bytes((other,)) + raw[at + 1 :]
            letters = urlsafe_b64encode(changed).rstrip(b"=").decode()
            assert "it is damaged, letters of it are changed" in said_of(SCHEME + letters, kind), name
