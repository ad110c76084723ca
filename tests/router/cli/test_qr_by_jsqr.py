"""Upright codes can be read by another reader too: jsqr for JavaScript, if node and npm are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image, ImageOps
from rigs.patience import HANG_S
from samples.codes import code
from samples.core import ADVERTISEMENTS, INVITATIONS, LINKS

JSQR = "jsqr@1.4.0"
READ = """
const pixels = new Uint8ClampedArray(require("fs").readFileSync(0));
const found = require("jsqr")(pixels, Number(process.argv[1]), Number(process.argv[2]));
process.stdout.write(found ? found.data : "");
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which node finds jsqr, fetched by npm."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed, so jsqr cannot read our codes")
    place = tmp_path_factory.mktemp("jsqr")
    options = "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"
    done = subprocess.run(
        ["npm", "install", *options, JSQR], cwd=place, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot fetch {JSQR}: {done.stderr.strip()[-200:]}")
    return place


def read(place: Path, image: Image.Image) -> str:
    size = map(str, image.size)
    pixels = image.convert("RGBA").tobytes()
    done = subprocess.run(
        ["node", "-e", READ, *size], cwd=place, input=pixels, capture_output=True, timeout=HANG_S, check=True
    )
    return done.stdout.decode()


@pytest.mark.long
@pytest.mark.parametrize("text", [ADVERTISEMENTS[0].text(), LINKS[0].text(), INVITATIONS[1].text()])
@pytest.mark.parametrize("scale", [1, 2, 4])
def test_a_straight_code_is_read_by_jsqr(reader: Path, text: str, scale: int) -> None:
    image = code(text, scale)
    assert read(reader, image) == text
    assert read(reader, ImageOps.invert(image)) == text, "light on dark"
