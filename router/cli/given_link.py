"""Read the link that an argument gives: the link itself, standard input, a file with its text, such as a saved mail, or
a picture of its code."""

from __future__ import annotations

import stat
from pathlib import Path

from router.cli import qr
from router.cli.exits import Exit, Failure
from router.cli.output import hint
from router.cli.streams import standard_input
from router.core.wire.link_text import (
    GROUP,
    INVITATION,
    LINK_CHARACTERS_MAX,
    SCHEME,
    TYPES,
    is_link,
    link_begun_in,
    links_in,
    read_link,
    text_from,
)
from router.core.wire.text import BadText

STDIN = "-"
LINE_BYTES_MAX = 8 * LINK_CHARACTERS_MAX
TEXT_BYTES_MAX = 1 << 20
KEEP_GROUP = "keep its group by `router group add -`, and give its name"
_ENCODING = "content-transfer-encoding:"
_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".txt"))


def is_given(text: str) -> bool:
    """Whether an argument that may also be an address or a name is a link or leads to one."""
    path = Path(text)
    return text == STDIN or holds_link(text) or len(path.parts) > 1 or (bool(path.suffix) and _exists(path))


def holds_link(text: str) -> bool:
    """Whether a link begins anywhere in the text."""
    return bool(link_begun_in(text))


def warn_of_secret(argument: str, remedy: str) -> None:
    """Print advice at a terminal if the argument holds a link that is a secret."""
    if holds_link(argument) and any(_fits(one, (GROUP, INVITATION)) for one in links_in(argument)):
        kept = "a link on the command line stays in the shell's history, and others on this machine may see it there"
        hint(f"{kept}; {remedy}")


def may_be_file(text: str) -> bool:
    """Whether an argument that is no known name is one in the file system, or has the suffix of a picture or text."""
    path = Path(text)
    try:
        return bool(text.strip()) and (path.exists() or path.suffix.lower() in _SUFFIXES)
    except OSError:
        return False


def link_from(given: str, *wanted: int) -> str:
    """Return the text of the link that `given` contains or leads to; its type may differ from the `wanted` types.

    Raise `Failure` if there is none in a file or picture, or several of the wanted types.
    """
    if holds_link(given):
        warn_of_secret(given, "give - and the link on standard input, or put it into a file and give that")
        return _in_text(given, "what was given", wanted)
    if given == STDIN:
        return _within(_from_stdin(), "standard input", wanted)
    path = Path(given)
    if not given.strip() or not _exists(path):
        if path.suffix or len(path.parts) > 1:
            raise Failure(Exit.USAGE, f"{given} is no link, and there is no such file")
        return given
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise Failure(Exit.USAGE, f"{given} is a directory; name the file that holds the link, or a picture of it")
        if not stat.S_ISREG(mode):  # a pipe without a writer would be waited for without end
            raise Failure(
                Exit.USAGE, f"{given} is no regular file; to read the link from a pipe, give - and redirect it"
            )
        with path.open("rb") as file:
            data = file.read(qr.PICTURE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(Exit.USAGE, f"{given} cannot be read: {error.strerror}") from None
    return _within(data, given, wanted)


def _exists(path: Path) -> bool:
    """Whether there is such a file; False for a text too long for a file name, as a link without its scheme."""
    try:
        return path.exists()
    except OSError:
        return False


def _from_stdin() -> bytes:
    stdin = standard_input("give the link as LINK")
    if stdin.isatty():
        return stdin.readline(LINE_BYTES_MAX)
    return stdin.read(qr.PICTURE_BYTES_MAX + 1)


def _within(data: bytes, where: str, wanted: tuple[int, ...]) -> str:
    if not data.strip():
        raise Failure(Exit.USAGE, f"{where} is empty: copy the whole link, from {SCHEME} to its last letter")
    if not qr.is_picture(data):
        text = _text_in(data[:TEXT_BYTES_MAX])
        if len(data) > LINE_BYTES_MAX and not holds_link(text):
            raise Failure(Exit.USAGE, f"{where} is neither a link nor a PNG or JPEG picture")
        return _in_text(text, where, wanted)
    if len(data) > qr.PICTURE_BYTES_MAX:
        raise Failure(Exit.USAGE, f"{where} has more than {qr.PICTURE_BYTES_MAX >> 20} MiB: make it smaller")
    texts = qr.texts_in(data, where)
    links = [one for one in texts if is_link(one)]
    if not texts:
        said = "shows no QR code to be read: take the picture closer and sharper, or copy the link"
        raise Failure(Exit.USAGE, f"{where} {said}")
    if not links:
        codes = "the QR code of another program" if len(texts) == 1 else f"{len(texts)} QR codes of other programs"
        said = f"shows {codes}, and none of ours: take a picture of the code that was drawn with the link"
        raise Failure(Exit.USAGE, f"{where} {said}, or copy the link, which begins with {SCHEME}")
    return _one(links, wanted, f"{where} shows", "cut out the code that is meant")


def _text_in(data: bytes) -> str:
    """Return the text of a file, of a saved mail that of its parts if the link is encoded there."""
    text = text_from(data)
    if links_in(text) or _ENCODING not in text.lower():
        return text
    from email import message_from_bytes

    try:  # by the policy that splits headers and parses none: that of others recurses into whatever a stranger sent
        mail = message_from_bytes(data)
        parts = [one.get_payload(decode=True) for one in mail.walk() if one.get_content_maintype() == "text"]
    except RecursionError:  # parts within parts
        return text
    texts = [text_from(one) for one in parts if isinstance(one, bytes)]
    return next((one for one in texts if links_in(one)), text)


def _in_text(text: str, where: str, wanted: tuple[int, ...]) -> str:
    """Return the link in a text, such as a mail; without a whole one, the beginning of one; else the text itself."""
    links = links_in(text)
    if links:
        return _one(links, wanted, f"{where} holds", "give the one that is meant")
    return text if is_link(text) else link_begun_in(text) or text


def _one(links: list[str], wanted: tuple[int, ...], holder: str, remedy: str) -> str:
    fitting = [one for one in links if _fits(one, wanted)] or links
    if len(fitting) > 1:
        nouns = ", ".join(TYPES[kind].noun for kind in wanted)
        raise Failure(Exit.USAGE, f"{holder} {len(fitting)} links ({nouns}): {remedy}")
    return fitting[0]


def _fits(text: str, wanted: tuple[int, ...]) -> bool:
    try:
        read_link(text, *wanted)
    except BadText:
        return False
    return True
