"""A service's scratch: blocks on disk, in a file without a name, which ends with the service."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from weakref import finalize

ASK_EVERY_BYTES = 1 << 20
"""By how much the file grows until it is asked again how much of the disk is free."""


class ScratchFile:
    """Blocks in a file in the folder `place`, made with the first block. `leave_free_bytes`: of the disk; the file does
    not grow into them. `warn` is told once in a row why nothing can be written."""

    def __init__(self, place: Path, leave_free_bytes: int, warn: Callable[[str], object]) -> None:
        self._place, self._leave_free_bytes, self._warn = place, leave_free_bytes, warn
        self._file = -1
        self._room = 0  # bytes up to which the file may grow before it is asked again
        self._is_failing = False

    def __repr__(self) -> str:
        return f"<scratch in {self._place}>"

    def write(self, at: int, block: bytes) -> bool:
        """Write a block at a byte of the file; return whether it was written. False: the disk has no room, or fails;
        what was at that place is not to be read again."""
        try:
            if self._file < 0:
                self._file = _open_unnamed(self._place)
                finalize(self, os.close, self._file)
            if at + len(block) > self._room:
                self._ask_for_room(at + len(block))
            if os.pwrite(self._file, block, at) < len(block):
                raise OSError("only a part of it was written")
        except OSError as error:
            self._say(error.strerror or str(error))
            return False
        self._is_failing = False
        return True

    def read(self, at: int, size: int) -> bytes:
        """Return `size` bytes that were written at a byte of the file. Raise OSError if the disk does not give them
        back."""
        block = os.pread(self._file, size, at)
        if len(block) != size:
            raise OSError(f"the scratch in {self._place} has lost {size - len(block)} bytes at {at}")
        return block

    def _ask_for_room(self, size: int) -> None:
        free = shutil.disk_usage(self._place).free - self._leave_free_bytes
        if free < ASK_EVERY_BYTES:
            raise OSError(f"the disk has less than {self._leave_free_bytes + ASK_EVERY_BYTES} bytes free")
        self._room = size + ASK_EVERY_BYTES

    def _say(self, text: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._warn(f"keeps more in memory than usual, as nothing can be written in {self._place}: {text}")


def _open_unnamed(place: Path) -> int:
    """Return the descriptor of a new file that has no name, so that nothing of it is left after a crash."""
    with tempfile.TemporaryFile(dir=place, prefix="scratch-", buffering=0) as file:
        return os.dup(file.fileno())
