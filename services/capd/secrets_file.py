"""The secrets of messages that this home has posted and can rescind: a file each, 0600, until the message has ended."""

from __future__ import annotations

import time
from pathlib import Path

from router.cli.exits import Exit, Failure
from router.disk import private_file
from services.capd.core.priority import LIFE_S

FOLDER = "capd-secrets"
KEPT_S = 2 * LIFE_S
FILES_MAX = 10_000


def keep(home: Path, shown_id: str, secret: bytes) -> None:
    """Keep a secret under the id that people see, and remove those of messages that no pool can hold live any more."""
    folder = home / FOLDER
    try:
        private_file.make_directory(folder)
        old = sorted((_changed_s(one), one) for one in folder.iterdir())
        for at, (changed_s, one) in enumerate(old):
            if changed_s + KEPT_S < time.time() or len(old) - at > FILES_MAX:
                one.unlink(missing_ok=True)
        private_file.replace(folder / shown_id, secret)
    except OSError as error:
        said = f"the secret of {shown_id} cannot be kept in {folder}: {error.strerror}"
        raise Failure(Exit.FAILED, f"{said}; the message was not posted: make room, and post it again") from None


def _changed_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another command has just removed or renamed it
        return 0.0


def find(home: Path, shown_id: str) -> bytes | None:
    """Return the secret of a message, if this home has one."""
    try:
        return (home / FOLDER / shown_id).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(Exit.FAILED, f"the secret of {shown_id} cannot be read: {error.strerror}") from None
