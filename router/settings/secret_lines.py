"""The lines of a home's secret files: a key, a group link. Nothing here raises an error, so that no traceback holds a
line."""

from __future__ import annotations

import re
from pathlib import Path

from router.core.wire.crypto import KEY_BYTES, SigningKey
from router.core.wire.grouplink import GroupLink, parse_link
from router.core.wire.link_text import LINK_CHARACTERS_MAX, text_from
from router.disk import private_file

_SEED_LINE = re.compile(rb"([0-9a-fA-F]{64})\s*")


def key_in(path: Path) -> SigningKey | str | None:
    """Return the key, None if there is none, or the fault as a sentence."""
    line = private_file.read_worded(path, 2 * KEY_BYTES + 64)
    if line is None or isinstance(line, str):
        return line
    found = _SEED_LINE.fullmatch(line)
    if found is None:
        said = f"{path} should hold a key, one line of 64 hex digits, and holds {len(line)} bytes"
        return f"{said}; restore it, or move it away to start with a new key, which is a new address"
    return SigningKey(bytes.fromhex(found[1].decode()))


def link_in(path: Path) -> GroupLink | str | None:
    """Return the group, None if there is none, or the fault as a sentence."""
    line = private_file.read_worded(path, 4 * LINK_CHARACTERS_MAX)
    if line is None or isinstance(line, str):
        return line
    try:
        return parse_link(text_from(line))
    except ValueError:
        said = f"{path} should hold a whole group link, and holds {len(line)} bytes"
        return f"{said}; move it away, and add the group again if it was one"
