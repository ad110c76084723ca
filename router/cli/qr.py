"""QR codes of links: drawn on the terminal, as PNG or SVG, and read from pictures (R-D13)."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from warnings import catch_warnings

import click

from router.cli.exits import Exit, Failure
from router.cli.output import has_colours, note, say
from router.core.wire.link_text import TYPES, read_link
from router.disk import private_file

if TYPE_CHECKING:
    import segno
    from PIL.Image import Image

BORDER = 2
"""Light modules around a code on the terminal: 77 columns with the largest code."""
PICTURE_BORDER = 4
PICTURE_SCALE = 8
LEVELS = (("m", 362), ("l", 458))
"""Error-correction levels, the better one first, with the most characters that fit into 73 modules a side (version 14).
"""
LINES = 23
"""Lines of a code on a terminal of 24, whose last one is the prompt's."""
_BLACK_ON_WHITE, _AS_BEFORE = "\x1b[30;47;107m", "\x1b[0m"  # 47 where the bright 107 is not known
_BLOCKS = {(True, True): "█", (True, False): "▀", (False, True): "▄", (False, False): " "}
PIXELS_MAX = 40_000_000
SIDE_PIXELS_MAX = 65_535
"""Pixels of a side that the reader of codes takes."""
PICTURE_BYTES_MAX = 64 << 20
FORMATS = ("PNG", "JPEG")
_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")

Function = TypeVar("Function", bound=Callable[..., Any])


class Drawing(NamedTuple):
    """Where a command draws the code of its link: on the terminal, into new files."""

    terminal: bool
    png: str | None
    svg: str | None

    @property
    def is_wanted(self) -> bool:
        """Whether a code is to be drawn anywhere."""
        return self.terminal or self.png is not None or self.svg is not None


def options(command: Function) -> Function:
    """Add `--qr`, `--png` and `--svg` to a command that prints a link; it gets them as `draw: Drawing`."""

    @wraps(command)
    def with_drawing(*args: Any, qr: bool, png: str | None, svg: str | None, **more: Any) -> Any:
        return command(*args, draw=Drawing(qr, png, svg), **more)

    found: Any = with_drawing
    for option in (
        click.option(
            "--svg",
            metavar="FILE",
            help="Write the QR code of the link to a new SVG file.",
        ),
        click.option(
            "--png",
            metavar="FILE",
            help="Write the QR code of the link to a new PNG file.",
        ),
        click.option("--qr", is_flag=True, help="Print the link as a QR code too."),
    ):
        found = option(found)
    return cast(Function, found)


def check(draw: Drawing) -> None:
    """Raise `Failure` if one of these files cannot be created; called before there is a link to draw."""
    for kind, name in (("png", draw.png), ("svg", draw.svg)):
        if name is None:
            continue
        path = Path(name)
        if name in ("", "-") or path.is_dir():
            raise Failure(Exit.USAGE, f'--{kind} takes the name of a new file, not "{name}"')
        if os.path.lexists(path):
            raise _taken(path)
        if not path.parent.is_dir():
            raise Failure(Exit.FAILED, f"{path} cannot be written: there is no {path.parent}; make that directory")
        if not os.access(path.parent, os.W_OK):
            raise Failure(Exit.FAILED, f"this user may not write in {path.parent}; name a file elsewhere")
    if draw.png is not None and draw.svg is not None and Path(draw.png) == Path(draw.svg):
        raise Failure(Exit.USAGE, "--png and --svg name the same file; name two")


def show(text: str, draw: Drawing, *, leave_out: str, on_terminal: bool) -> None:
    """Draw the code of this link. `leave_out`: advice that would make it smaller. Raise `Failure`.

    A file is private and new: a link may be a secret, and an existing file is not replaced.
    """
    if not draw.is_wanted:
        return
    check(draw)
    code = _code(text, leave_out)
    for kind, name in (("png", draw.png), ("svg", draw.svg)):
        if name is not None:
            out = io.BytesIO()
            code.save(out, kind=kind, scale=PICTURE_SCALE, border=PICTURE_BORDER, light="#fff")
            _write(name, out.getvalue(), TYPES[read_link(text, *TYPES)[0]].exposes)
    if draw.terminal and on_terminal and sys.stdout is not None:
        say(drawn(text, leave_out, coloured=has_colours(sys.stdout)).removesuffix("\n"))


def drawn(text: str, leave_out: str, *, coloured: bool) -> str:
    """Return the lines of a code for a terminal, two modules one above the other in a letter: black on white by colours
    of its own, else light in the terminal's own, whose ground should be dark. Raise `Failure`.

    A code that fits `LINES` only with less error correction has less."""
    code, small = _code(text, leave_out), _code(text, leave_out, LEVELS[1:])
    if _lines(code) > LINES >= _lines(small):
        code = small
    if not coloured:
        out = io.StringIO()
        code.terminal(out=out, border=BORDER, compact=True)
        return out.getvalue()
    rows = [[bool(one) for one in row] for row in code.matrix_iter(border=BORDER)]
    pairs = zip_longest(rows[::2], rows[1::2], fillvalue=[False] * len(rows[0]))
    letters = ("".join(_BLOCKS[half] for half in zip(upper, lower, strict=True)) for upper, lower in pairs)
    return "".join(f"{_BLACK_ON_WHITE}{line}{_AS_BEFORE}\n" for line in letters)


def _lines(code: segno.QRCode) -> int:
    return (int(code.symbol_size(border=BORDER)[1]) + 1) // 2


def _code(text: str, leave_out: str, levels: Sequence[tuple[str, int]] = LEVELS) -> segno.QRCode:
    import segno

    for level, most in levels:
        if len(text) <= most:
            return segno.make(text, error=level, micro=False)
    said = f"this link has {len(text)} characters, and a code that fits a terminal holds {LEVELS[-1][1]}"
    raise Failure(Exit.USAGE, f"{said}: leave out {leave_out}, or pass the link on as text")


def _taken(path: Path) -> Failure:
    return Failure(Exit.USAGE, f"{path} exists already; name another file")


def _write(name: str, data: bytes, exposes: str) -> None:
    path = Path(name)
    try:
        private_file.create(path, data)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise Failure(Exit.FAILED, f"{path} cannot be written: {error.strerror}") from None
    note(f"{path} holds the code; {exposes}")


# -- reading -----------------------------------------------------------------------------------------------


def is_picture(data: bytes) -> bool:
    """Whether the bytes begin like a picture of a supported format."""
    return data.startswith(_STARTS)


def texts_in(data: bytes, where: str) -> list[str]:
    """Return the texts of all QR codes in a picture, in any direction, each once. `where` names the picture.

    Its size is judged before it is decoded. Raise `Failure`.
    """
    with catch_warnings(action="ignore"):  # of a damaged file that can be read all the same
        picture = _opened(data, where)
    import zxingcpp

    qr_codes = zxingcpp.BarcodeFormats(zxingcpp.BarcodeFormat.QRCode)
    for one in _larger(picture):
        codes = zxingcpp.read_barcodes(one, formats=qr_codes)
        if codes:
            return list(dict.fromkeys(code.text for code in codes))
    return []


def _opened(data: bytes, where: str) -> Image:
    """Return the picture in shades of grey, with white for transparent parts."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # judged here
    try:
        picture: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
        if picture.width * picture.height > PIXELS_MAX:
            size = f"{picture.width} x {picture.height} pixels, more than {PIXELS_MAX // 1_000_000} million"
            raise Failure(Exit.USAGE, f"{where} has {size}: cut out the code, or make it smaller")
        if max(picture.size) > SIDE_PIXELS_MAX:
            size = f"a side of {max(picture.size)} pixels, more than {SIDE_PIXELS_MAX}"
            raise Failure(Exit.USAGE, f"{where} has {size}: cut out the code")
        picture.load()
        if picture.has_transparency_data:
            picture = picture.convert("RGBA")
            picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
        return picture.convert("L")
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        why = f" ({error})" if "BytesIO" not in str(error) else ""
        said = f"{where} is damaged, or no PNG or JPEG picture{why}"
        raise Failure(Exit.USAGE, f"{said}; give another picture, or the link as text") from None


def _larger(picture: Image) -> Iterator[Image]:
    """Yield the picture, then enlarged copies, in which codes of one or two pixels a module can be read."""
    yield picture
    for factor in (2, 4):
        if picture.width * picture.height * factor**2 <= PIXELS_MAX and max(picture.size) * factor <= SIDE_PIXELS_MAX:
            yield picture.resize((picture.width * factor, picture.height * factor))
