"""QR codes of links: a drawn code can be read from pictures of every kind; the limits are reported as sentences."""

from __future__ import annotations

import io
import os
import pty
import re
import stat
import subprocess
from contextlib import suppress
from itertools import product
from pathlib import Path
from warnings import catch_warnings

import pytest
import segno
from click.testing import Result
from PIL import Image, ImageOps
from rigs.commands import ROUTER, Run
from samples.codes import code
from samples.core import ADVERTISEMENTS

from router.cli import qr
from router.cli.exits import Failure
from router.cli.output import has_colours
from router.core.wire.grouplink import new_group, parse_link

LINKS = [new_group(bytes((n,)) * 32, b"k" * 32, f"group-{n}").text() for n in (1, 2)]
LINK, OTHER = LINKS
COLOURED = re.compile(r"^\x1b\[30;47;107m([ \u2580\u2584\u2588]+)\x1b\[0m$", re.MULTILINE)
LONGEST = "upsycle:" + "A" * (qr.LEVELS[-1][1] - 8)


def picture(image: Image.Image, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, format=kind)
    return out.getvalue()


def turned(image: Image.Image, degrees: int, ground: int) -> Image.Image:
    wide = Image.new("L", (2 * image.width, 2 * image.height), ground)
    wide.paste(image, (image.width // 2, image.height // 2))
    return wide.rotate(degrees, resample=Image.Resampling.BICUBIC, fillcolor=ground)


def terminal(drawn: str, *, dark: bool, gap: int) -> Image.Image:
    """Return a terminal's picture of a drawn code: half blocks of 8 x 8 pixels, with or without lines of the ground
    between rows. `dark`: the terminal's own colours, which a code with colours of its own does not take."""
    rows = COLOURED.findall(drawn)
    is_coloured = bool(rows)
    rows = rows or drawn.splitlines()
    ground, ink = (0, 255) if dark and not is_coloured else (255, 0)
    image = Image.new("L", (8 * max(map(len, rows)) + 80, (16 + gap) * len(rows) + 80), ground)
    halves = {"█": (True, True), "▀": (True, False), "▄": (False, True), " ": (False, False)}
    for (y, row), half in product(enumerate(rows), (0, 1)):
        for x, letter in enumerate(row):
            if halves[letter][half]:
                image.paste(
                    ink, (40 + 8 * x, 40 + (16 + gap) * y + 8 * half, 48 + 8 * x, 48 + (16 + gap) * y + 8 * half)
                )
    return image


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.mark.parametrize("text", [LINK, LONGEST], ids=["usual", "longest"])
def test_codes_are_read_in_every_size_and_direction(text: str) -> None:
    for scale, degrees, inverted in product((1, 2, 4), (0, 7, 23, 45, 90), (False, True)):
        if scale == 1 and degrees % 90:
            continue  # a picture with one pixel a module holds no code any more once it is turned
        image = ImageOps.invert(code(text, scale)) if inverted else code(text, scale)
        found = qr.texts_in(picture(turned(image, degrees, 0 if inverted else 255)), "it")
        assert found == [text], (scale, degrees, inverted)


def test_codes_are_read_from_photographs_and_terminals() -> None:
    for kind in ("PNG", "JPEG"):
        assert qr.texts_in(picture(code(LINK), kind), "it") == [LINK]
    for coloured, dark, gap in product((False, True), (False, True), (0, 1, 2)):
        drawn = qr.drawn(LINK, "", coloured=coloured)
        assert qr.texts_in(picture(terminal(drawn, dark=dark, gap=gap)), "it") == [LINK], (coloured, dark, gap)


def test_a_code_with_colours_is_dark_on_light_on_every_terminal() -> None:
    """The first lines are the light border, and what is drawn of a code is dark: the picture is not inverted."""
    image = terminal(qr.drawn(LINK, "", coloured=True), dark=True, gap=0)
    assert {image.getpixel((at, at)) for at in range(40, 40 + 8 * qr.BORDER)} == {255}
    assert image.getpixel((40 + 8 * qr.BORDER + 1, 40 + 8 * qr.BORDER + 1)) == 0
    plain = qr.drawn(LINK, "", coloured=False)
    assert "\x1b" not in plain and set(plain) == set(" \u2580\u2584\u2588\n")


@pytest.mark.parametrize(("length", "rows"), [(60, 19), (106, 23), (107, 23), (134, 23), (135, 27)])
def test_a_code_that_fits_24_lines_by_less_correction_has_less(length: int, rows: int) -> None:
    text = LONGEST[:length]
    for coloured in (False, True):
        drawn = qr.drawn(text, "", coloured=coloured)
        assert len(drawn.splitlines()) == rows
        assert qr.texts_in(picture(terminal(drawn, dark=False, gap=0)), "it") == [text]


def test_a_code_at_a_terminal_has_colours(router: Run, home: Path) -> None:
    [link] = router("group", "new", "family").stdout.splitlines()
    command = [*ROUTER, "--home", str(home), "group", "share", "family", "--no-hints", "--qr"]
    variables = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    rows = at_a_terminal(command, variables).partition("upsycle:")[0]
    assert len(COLOURED.findall(rows)) == rows.count("\n") > 0
    assert qr.texts_in(picture(terminal(rows, dark=True, gap=0)), "it") == [link]


def test_no_colours_are_given_to_a_pipe_to_a_dumb_terminal_or_to_who_wants_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, its = pty.openpty()
    with os.fdopen(ours, "wb"), os.fdopen(its, "w") as stream, (tmp_path / "file").open("w") as file:
        for term, no_color, coloured in (("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)):
            monkeypatch.setenv("TERM", term)
            monkeypatch.setenv("NO_COLOR", no_color)
            assert (has_colours(stream), has_colours(file)) == (coloured, False), (term, no_color)


def at_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Return what the command writes to a terminal."""
    ours, its = pty.openpty()
    found = bytearray()
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=subprocess.DEVNULL, env=environment):
        os.close(its)
        with suppress(OSError):  # of a terminal that nobody has open any more
            while read := os.read(ours, 65_536):
                found += read
    os.close(ours)
    return found.decode().replace("\r\n", "\n")


def test_a_transparent_ground_is_white() -> None:
    image = code(LINK).convert("RGBA")
    ink = Image.new("RGBA", image.size, (0, 0, 0, 0))
    ink.paste((0, 0, 0, 255), mask=ImageOps.invert(code(LINK)))
    assert qr.texts_in(picture(ink), "it") == [LINK]


def test_the_largest_code_fits_a_terminal() -> None:
    """The next larger code is refused, with advice what to leave out."""
    assert segno.make(LONGEST, error="l", micro=False).symbol_size(border=qr.BORDER)[0] == 77
    with pytest.raises(Failure, match=r"has 459 characters, .* 458: leave out the name"):
        qr.show(LONGEST + "A", qr.Drawing(True, None, None), leave_out="the name", on_terminal=True)


def test_a_code_is_drawn_into_new_private_files_and_read_again(router: Run, home: Path, tmp_path: Path) -> None:
    [link] = router("group", "new", "family").stdout.splitlines()
    png, svg = tmp_path / "f.png", tmp_path / "f.svg"
    shared = router("group", "share", "family", "--png", str(png), "--svg", str(svg), "--json")
    assert shared.exit_code == 0 and "whoever sees it can read the group" in shared.stderr
    assert [stat.S_IMODE(one.stat().st_mode) for one in (png, svg)] == [0o600, 0o600]
    assert qr.texts_in(png.read_bytes(), "it") == [link] and svg.read_text().startswith("<?xml")
    assert f"{png} exists already; name another file" in refused(router("group", "share", "family", "--png", str(png)))
    router("group", "add", LINK)
    for given, stdin in ((str(png), None), ("-", png.read_bytes()), ("-", link[:40] + "\n" + link[40:])):
        added = router("group", "add", given, stdin=stdin)
        assert (added.exit_code, added.stdout.split()[0]) == (0, "family"), added.output
    text = tmp_path / "link.txt"
    text.write_text(link + "\n")
    assert router("group", "add", str(text)).exit_code == 0


def two_codes(*texts: str) -> bytes:
    images = [code(text) for text in texts]
    wide = Image.new("L", (sum(one.width for one in images), max(one.height for one in images)), 255)
    for at, one in enumerate(images):
        wide.paste(one, (sum(before.width for before in images[:at]), 0))
    return picture(wide)


def bad() -> dict[str, tuple[bytes, str]]:
    """Return what gives no link, with what is said of it."""
    return {
        "no code": (picture(Image.new("L", (300, 200), 255)), "shows no QR code to be read: take the picture closer"),
        "another's": (picture(code("https://example.org")), "shows the QR code of another program, and none of ours"),
        "others'": (two_codes("https://example.org", "https://example.com"), "shows 2 QR codes of other programs, and"),
        "several": (two_codes(LINK, OTHER), "shows 2 links (a group link): cut out the code that is meant"),
        "cut": (picture(code(LINK))[:300], "is damaged, or no PNG or JPEG picture"),
        "head only": (b"\x89PNG\r\n\x1a\n", "or no PNG or JPEG picture; give another picture, or the link as text\n"),
        "100 megapixels": (picture(Image.new("1", (10_000, 10_000))), "10000 x 10000 pixels, more than 40 million"),
        "a film": (b"\x00\x00\x00\x18ftypmp42" + bytes(9_000), "is neither a link nor a PNG or JPEG picture"),
        "a letter": (b"dear all\n", "does not begin with upsycle:"),
        "nothing": (b"", "is empty: copy the whole link, from upsycle: to its last letter"),
    }  # fmt: skip


def test_a_picture_that_gives_no_link_says_why(router: Run, tmp_path: Path) -> None:
    path = tmp_path / "given"
    for what, (data, said) in bad().items():
        path.write_bytes(data)
        for given, stdin in ((str(path), None), ("-", data)):
            assert said in refused(router("group", "add", given, stdin=stdin)), what


def test_a_picture_longer_than_the_reader_of_codes_takes_is_told_and_enlarged_no_further() -> None:
    longest = qr.SIDE_PIXELS_MAX
    for size in ((longest, 20), (20, longest // 2), (longest // 4 + 1, 20)):
        assert qr.texts_in(picture(Image.new("L", size, 255)), "it") == []
    with pytest.raises(Failure, match="it has a side of 65536 pixels, more than 65535: cut out the code"):
        qr.texts_in(picture(Image.new("L", (longest + 1, 20), 255)), "it")


def test_what_is_odd_in_a_picture_that_can_be_read_prints_no_warning() -> None:
    odd = io.BytesIO()
    code(LINK).convert("L").save(odd, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x02\x01\x12\0\x03")
    with catch_warnings(action="error"):
        assert qr.texts_in(odd.getvalue(), "it") == [LINK]


def test_ours_is_found_beside_anothers(router: Run, tmp_path: Path) -> None:
    path = tmp_path / "two.png"
    path.write_bytes(two_codes("https://example.org", LINK))
    assert router("group", "add", str(path)).exit_code == 0


def test_what_cannot_be_opened_is_named(router: Run, tmp_path: Path) -> None:
    assert "is no link, and there is no such file" in refused(router("group", "add", str(tmp_path / "none.png")))
    os.mkfifo(tmp_path / "pipe.png")
    path = tmp_path / "pipe.png"
    assert f"{path} is no regular file; to read the link from a pipe" in refused(router("group", "add", str(path)))
    assert f"{tmp_path} is a directory; name the file that" in refused(router("group", "add", str(tmp_path)))
    assert router("group", "new", "family").exit_code == 0
    failed = router("group", "share", "family", "--png", str(tmp_path / "no" / "f.png"))
    assert (failed.exit_code, "no; make that directory" in failed.stderr) == (1, True)
    for name in ("", "-", str(tmp_path)):
        assert "--png takes the name of a new file" in refused(router("group", "share", "family", "--png", name))


def test_a_link_without_its_scheme_is_not_repeated(router: Run) -> None:
    """Such a link may be too long for the name of a file, and it is a secret."""
    letters = LINK.partition(":")[2] + "A" * 200
    said = refused(router("group", "add", letters))
    assert "does not begin with upsycle:" in said and letters[:20] not in said


def test_a_link_of_another_kind_is_sent_to_its_command(router: Run, tmp_path: Path) -> None:
    assert parse_link(LINK).name == "group-1"
    path = tmp_path / "node.png"
    path.write_bytes(picture(code(ADVERTISEMENTS[0].text())))
    said = refused(router("group", "add", str(path)))
    assert said.startswith("This is the link of a node, not a group link. Take it with `router ") and "peer add" in said
