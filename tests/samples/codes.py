"""QR codes drawn by the tests as a command writes them, in shades of grey."""

from __future__ import annotations

import io

import segno
from PIL import Image

from router.cli import qr


def code(text: str, scale: int = 4) -> Image.Image:
    """Return the code of a text with `scale` pixels a module."""
    out = io.BytesIO()
    level = "m" if len(text) <= qr.LEVELS[0][1] else "l"
    segno.make(text, error=level, micro=False).save(out, kind="png", scale=scale, border=qr.PICTURE_BORDER)
    return Image.open(out).convert("L")
