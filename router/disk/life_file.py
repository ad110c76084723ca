"""The file `life` of a home that was restored: which life began then, and from which snapshot (`router restore`)."""

from __future__ import annotations

from pathlib import Path

from msgspec import ValidationError, json

from router.core.log.life import Restored, first_number
from router.core.wire.errors import RouterError
from router.disk import private_file

NAME = "life"
BYTES_MAX = 1024


class LifeUnknown(RouterError):
    """The file cannot be used; the text says why and what to do."""


def write(home: Path, restored: Restored) -> None:
    """Write the file. `OSError` passes."""
    private_file.replace(home / NAME, json.encode(restored))


def least_number(home: Path) -> int:
    """Return the number from which apps of this home number their messages; 0 if it was never restored. Raise
    `LifeUnknown`."""
    restored = read(home)
    return first_number(restored) if restored else 0


def read(home: Path) -> Restored | None:
    """Return what the file says, None for a home that was never restored. Raise `LifeUnknown`."""
    path = home / NAME
    try:
        return json.decode(private_file.read(path, BYTES_MAX), type=Restored)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or str(error)
    except (ValidationError, ValueError, private_file.Exposed) as error:
        why = str(error)
    said = f"{path} says in which life this node stands since it was restored, and cannot be used ({why})"
    raise LifeUnknown(f"{said}: put it back as it was, with mode 600, or restore the snapshot again into another home")
