"""The sequence numbers that an app gives its messages to each group: from 0, each once, without gaps (R-E3).

Those of a key that is kept are stored in one small file. Numbers are reserved in blocks, so that the disk is written
once in `BLOCK` messages; a process that ends normally gives its unused ones back. After a crash the unused rest of a
block is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from router.client.errors import ClientError
from router.core.wire.crypto import PublicKey
from router.disk import private_file

BLOCK = 256
GROUPS_MAX = 100_000
_LINE_BYTES_MAX = 2 * 32 + 22


class SequenceError(ClientError):
    """The file of sequence numbers cannot be used; the text says why and what to do."""


class Sequences:
    """Sequence numbers for all groups of one app. Without a path they begin at 0 with the process."""

    def __init__(self, path: Path | None, block: int = BLOCK) -> None:
        self.path = path
        self._block = block
        self._next: dict[PublicKey, int] = {}
        self._stop: dict[PublicKey, int] = {}

    def __repr__(self) -> str:
        return f"<sequence numbers of {len(self._next)} groups, kept in {self.path or 'memory'}>"

    def take(self, group: PublicKey) -> int:
        """Return the next number; once per block this writes to the disk."""
        number = self._next.get(group, 0)
        if number == self._stop.get(group, 0):
            if self.path is None:
                self._stop[group] = number + self._block
            else:
                number = self._reserve(self.path, group)
        self._next[group] = number + 1
        return number

    def give_back(self, group: PublicKey, number: int) -> None:
        """Return the number of a message that was never sent: if it was the last one taken, it is used next."""
        if self._next.get(group) == number + 1:
            self._next[group] = number

    def close(self, problem: Callable[[str], None]) -> None:
        """Give back the numbers that were reserved and not used. `problem` gets the reason if that fails: the numbers
        then stay unused, which loses nothing and hides no error that the app ends with."""
        if self.path is None or not self._next:
            return
        try:
            self._give_all_back(self.path)
        except SequenceError as error:
            problem(f"{error}; some sequence numbers of this app stay unused")

    def _give_all_back(self, path: Path) -> None:
        try:
            with private_file.alone(path.parent):
                table = self._read(path)
                for group, number in self._next.items():
                    if table.get(group) == self._stop[group]:
                        table[group] = number
                self._write(path, table)
        except OSError as error:
            raise self._unusable(error) from None

    def _reserve(self, path: Path, group: PublicKey) -> int:
        """Reserve a new block; it begins where the last one ended, unless another process took a block meanwhile."""
        try:
            for directory in (path.parent.parent, path.parent):
                private_file.make_directory(directory)
            with private_file.alone(path.parent):
                table = self._read(path)
                if group not in table and len(table) >= GROUPS_MAX:
                    raise SequenceError(f"{path} knows {GROUPS_MAX} groups, which is the most; use another name")
                number = table.get(group, 0)
                self._stop[group] = table[group] = number + self._block
                self._write(path, table)
        except OSError as error:
            raise self._unusable(error) from None
        return number

    def _read(self, path: Path) -> dict[PublicKey, int]:
        try:
            text = private_file.read(path, GROUPS_MAX * _LINE_BYTES_MAX)
        except FileNotFoundError:
            return {}
        except private_file.Exposed as exposed:
            said = f"{path} can be changed by others (mode {exposed.mode:03o}); run: chmod 600 {path}"
            raise SequenceError(said) from None
        try:
            lines = [line.split() for line in text.decode("ascii").splitlines()]
            return {PublicKey(bytes.fromhex(key)): int(number) for key, number in lines}
        except ValueError:
            said = f"{path} is damaged; move it away, and sequence numbers begin again at 0"
            raise SequenceError(said) from None

    def _write(self, path: Path, table: dict[PublicKey, int]) -> None:
        text = "".join(f"{group.hex()} {number}\n" for group, number in table.items())
        private_file.replace(path, text.encode())

    def _unusable(self, error: OSError) -> SequenceError:
        return SequenceError(f"{self.path} cannot be written: {error.strerror}; see that there is room")
