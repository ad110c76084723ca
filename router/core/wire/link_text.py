"""Links: texts that people pass on, by mail, in a chat or as a QR code (R-D9, R-D13).

    upsycle:BASE64URL of enc([1, PEER_ADVERTISEMENT] / [2, GROUP] / [3, INVITATION]), without padding

One reader serves all of them. It drops white space, line breaks and signs without width, decodes letters that a mail
program or a redirecting link has encoded, accepts the scheme in any case, and tells apart texts that are no link of
ours, cut short, changed, of a newer type, or for another command. Links hold secrets, so no error shows any of their
letters.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple

from . import shape
from .codec import CutShort, Malformed, decode, first_of, head
from .link_beginning import is_beginning
from .text import BadText

SCHEME = "upsycle:"
LINK_CHARACTERS_MAX = 512
LINK_ITEMS_MAX = 128  # an advertisement of eight addresses, which fits, has 60
ADVERTISEMENT, GROUP, INVITATION = 1, 2, 3

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_BOTH_CASES_FROM = 40
_FOUND_MAX = 16
_LINE_ENDS = re.compile(r"=?\r?\n[>|\s]*")
_SCHEME = re.compile(SCHEME, re.IGNORECASE)
_WIDTHLESS = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
_ENCODED = re.compile("(?:%(?:25)*|=)([0-9A-Fa-f]{2})")
_HYPHENS = re.compile("[\u2010\u2011]")
_AROUND = "<>\"'"
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_CHANGED = "it is damaged, letters of it are changed"
_AGAIN = f"Copy the whole link again, from {SCHEME} to its last letter."


class LinkType(NamedTuple):
    """A type of link: what it is, the command that takes it, what somebody who sees it can do, and a key that only this
    type's map has."""

    noun: str
    command: str
    exposes: str
    has: str


TYPES: dict[int, LinkType] = {
    ADVERTISEMENT: LinkType(
        "the link of a node",
        "router peer add LINK",
        "it is no secret: it says where to reach this node",
        "rev",
    ),
    GROUP: LinkType("a group link", "router group add LINK", "whoever sees it can read the group", "key"),
    INVITATION: LinkType("an invitation", "router peer add LINK", "whoever sees it can use the invitation", "inv"),
}


def text_from(data: bytes) -> str:
    """Return the text in a file or from a pipe, as editors and shells write it: UTF-8, or UTF-16 with its mark."""
    encoding = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, "replace")


def is_link(text: str) -> bool:
    """Whether the text begins like a link."""
    return _mended(text[: 8 * len(SCHEME)]).lower().startswith(SCHEME)


def _mended(text: str) -> str:
    """Return a text that should be a link alone, without what mail programs and editors have put around and into it."""
    return "".join(_decoded(_LINE_ENDS.sub("", "\n" + _visible(text))).split()).strip(_AROUND)


def _visible(text: str) -> str:
    """Return the text without signs that have no width, and with one sign for all hyphens."""
    return _HYPHENS.sub("-", _WIDTHLESS.sub("", text))


def _decoded(text: str) -> str:
    """Decode letters of links that are encoded for a mail (`=2D`) or an URL (`%3A`, `%253A`)."""
    return _ENCODED.sub(_letter, text)


def _letter(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if letter in _LETTERS or letter == ":" else found[0]


def links_in(text: str) -> list[str]:
    """Return the links within a longer text such as a mail, each once, if they are unchanged.

    A link may be broken over lines, and these may be quoted by `>` or end in `=`; its letters may be encoded. At most
    the first 16 places where one may begin are examined.
    """
    visible = _visible(text)
    return _whole_links(visible) or _whole_links(_decoded(visible))


def _whole_links(text: str) -> list[str]:
    plain, found = _LINE_ENDS.sub("\n", text), []
    for begin in list(_SCHEME.finditer(plain))[:_FOUND_MAX]:
        letters = ""
        for word in plain[begin.end() : begin.end() + 2 * LINK_CHARACTERS_MAX].split():
            own = _own_letters(word)
            letters += own
            if _is_whole(SCHEME + letters):
                found.append(SCHEME + letters)
            if own != word or found[-1:] == [SCHEME + letters]:
                break
    return list(dict.fromkeys(found))


def link_begun_in(text: str) -> str:
    """Return the first text in a longer one that begins like a link, up to the next white space; "" if none does."""
    text = _decoded(_visible(text))
    begin = _SCHEME.search(text)
    return "" if begin is None else "".join(text[begin.start() :].split(maxsplit=1)[:1])


def _own_letters(word: str) -> str:
    end = next((at for at, letter in enumerate(word) if letter not in _LETTERS), len(word))
    return word[:end]


def _is_whole(text: str) -> bool:
    try:
        read_link(text, *TYPES)
    except BadText:
        return False
    return True


def write_link(kind: int, fields: bytes, *, leave_out: str = "") -> str:
    """Return the text of a link with an encoded map; raise `BadText` if it is too long.

    `leave_out` says what would make it shorter.
    """
    text = SCHEME + urlsafe_b64encode(head(2, 4) + head(kind, 0) + fields).rstrip(b"=").decode()
    if len(text) > LINK_CHARACTERS_MAX:
        said = f"The link would have {len(text)} characters, and {LINK_CHARACTERS_MAX} are the most"
        raise BadText(f"{said}{f': leave out {leave_out}' if leave_out else ''}.")
    return text


def read_link(text: str, *wanted: int) -> tuple[int, Any]:
    """Return type and map of a link of one of the wanted types; else raise `BadText`. The map's content is not
    checked."""
    nouns = " or ".join(TYPES[kind].noun for kind in wanted)
    if len(text) > 8 * LINK_CHARACTERS_MAX:
        raise bad_link(nouns, f"it has {len(text)} characters; {LINK_CHARACTERS_MAX} are the most")
    text = _mended(text)
    if not is_link(text):
        raise bad_link(nouns, f"it does not begin with {SCHEME}")
    if len(text) > LINK_CHARACTERS_MAX:
        raise bad_link(nouns, f"it has {len(text)} characters; {LINK_CHARACTERS_MAX} are the most")
    _check_case(text[len(SCHEME) :], nouns)
    raw = _bytes_of(text[len(SCHEME) :], nouns)
    _check_type(raw, nouns)
    try:
        kind, fields = shape.array(decode(raw, LINK_ITEMS_MAX), "it", 2, 2)
        kind = shape.uint(kind, "its type")
    except CutShort:
        raise bad_link(nouns, "it is cut short" if is_beginning(raw) else _CHANGED) from None
    except Malformed:
        raise bad_link(nouns, _CHANGED) from None
    if _stray_bits(text[len(SCHEME) :], raw):
        raise bad_link(nouns, _CHANGED)
    if kind not in wanted:
        if type(fields) is not dict or TYPES[kind].has not in fields:
            raise bad_link(nouns, _CHANGED)
        raise BadText(f"This is {TYPES[kind].noun}, not {nouns}. Take it with `{TYPES[kind].command}`.")
    return kind, fields


def bad_link(nouns: str, cause: str) -> BadText:
    """Return the error that says why a text is no link of the wanted types, and what to do."""
    return BadText(f"This is not {nouns}: {cause}. {_AGAIN}")


def changed_link(kind: int, error: ValueError) -> BadText:
    """Return the error for a link of that type whose map was changed after it was written, as `error` shows."""
    return bad_link(TYPES[kind].noun, f"{_CHANGED} ({error})")


def _check_type(raw: bytes, nouns: str) -> None:
    try:
        kind = first_of(raw)[1]
    except Malformed:
        return  # cut short or changed: the decoder tells which
    if kind not in TYPES:
        said = f"This link is of type {kind}, which this version does not know"
        raise BadText(f"{said}. Install a newer version, or, if it should be {nouns}: {_AGAIN}")


def _check_case(letters: str, nouns: str) -> None:
    """Raise `BadText` if all letters have one case: a text of this length was converted to it."""
    if len(letters) >= _BOTH_CASES_FROM and (letters.isupper() or letters.islower()):
        case = "capitals" if letters.isupper() else "small"
        raise bad_link(nouns, f"its letters are all {case}, and after {SCHEME} case counts")


def _bytes_of(letters: str, nouns: str) -> bytes:
    """Return the whole bytes that these letters encode; leftover bits are ignored."""
    if not letters:
        raise bad_link(nouns, "it is cut short")
    if not _LETTERS.issuperset(letters):
        raise bad_link(nouns, _CHANGED)
    if len(letters) % 4 == 1:
        letters = letters[:-1]
    return urlsafe_b64decode(letters + "=" * (-len(letters) % 4))


def _stray_bits(letters: str, raw: bytes) -> bool:
    return urlsafe_b64encode(raw).rstrip(b"=").decode() != letters
