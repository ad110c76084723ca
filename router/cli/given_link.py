"""The link that a command's argument gives: itself, standard input, a file with its text, or a picture of its code."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from router.cli import qr
from router.cli.exits import Exit, Failure
from router.core.wire.link_text import LINK_CHARACTERS_MAX, SCHEME, TYPES, is_link, read_link
from router.core.wire.text import BadText

STDIN = "-"
TEXT_BYTES_MAX = 8 * LINK_CHARACTERS_MAX
_SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".txt"))


def is_given(text: str) -> bool:
    """Whether an argument that may also be an address or a name gives a link."""
    path = Path(text)
    return text == STDIN or is_link(text) or len(path.parts) > 1 or (bool(path.suffix) and _exists(path))


def may_be_file(text: str) -> bool:
    """Whether an argument that is no name known here is a file, or named like a picture or a text."""
    path = Path(text)
    try:
        return path.is_file() or path.suffix.lower() in _SUFFIXES
    except OSError:
        return False


def link_from(given: str, *wanted: int) -> str:
    """Return the text of the link that `given` names, which may be of another than the `wanted` types.

    Raise `Failure` if a file or picture holds none, or several of the wanted types.
    """
    if is_link(given):
        return given
    if given == STDIN:
        return _within(_from_stdin(), "standard input", wanted)
    path = Path(given)
    if not _exists(path):
        if path.suffix or len(path.parts) > 1:
            raise Failure(Exit.USAGE, f"{given} is no link, and there is no such file")
        return given
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe without a writer would be waited for without end
            raise Failure(
                Exit.USAGE, f"{given} is no regular file; to read the link from a pipe, give - and redirect it"
            )
        with path.open("rb") as file:
            data = file.read(qr.PICTURE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(Exit.USAGE, f"{given} cannot be read: {error.strerror}") from None
    return _within(data, given, wanted)


def _exists(path: Path) -> bool:
    """Whether there is such a file; a text too long for the name of one, as a link without its scheme, names none."""
    try:
        return path.exists()
    except OSError:
        return False


def _from_stdin() -> bytes:
    if sys.stdin is None:  # closed by the process that started us
        raise Failure(Exit.USAGE, "standard input is closed; give the link as LINK")
    stdin = sys.stdin.buffer
    if stdin.isatty():
        return stdin.readline(TEXT_BYTES_MAX)
    return stdin.read(qr.PICTURE_BYTES_MAX + 1)


def _within(data: bytes, where: str, wanted: tuple[int, ...]) -> str:
    if not qr.is_picture(data):
        if len(data) > TEXT_BYTES_MAX:
            raise Failure(Exit.USAGE, f"{where} is neither a link nor a PNG or JPEG picture")
        return data.decode("utf-8-sig", "replace")
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
    fitting = [one for one in links if _fits(one, wanted)] or links
    if len(fitting) > 1:
        nouns = ", ".join(TYPES[kind].noun for kind in wanted)
        raise Failure(Exit.USAGE, f"{where} shows {len(fitting)} links ({nouns}): cut out the code that is meant")
    return fitting[0]


def _fits(text: str, wanted: tuple[int, ...]) -> bool:
    try:
        read_link(text, *wanted)
    except BadText:
        return False
    return True
