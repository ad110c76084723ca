"""Count how often an app has failed on a message (its block was left by an error), in a file that outlives the
process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from router.client.custody.arrivals import Arrival
from router.client.errors import NodeUnavailable
from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short
from router.disk import private_file

MESSAGES_MAX = 1000
"""Number of messages whose attempts are remembered; the oldest are forgotten first."""
_LINE_BYTES_MAX = 2 * 32 + 22
SAID_MAX = 400

Refuse = Callable[[Arrival, Reason, str], None]


class KeptAttempts:
    """The failure counts of one app. `most`: attempts before a message is refused, 0 for no limit. `path`: None counts
    nothing, because a throwaway key never gets a message twice. `problem` gets sentences for the app's owner."""

    def __init__(self, most: int, path: Path | None, problem: Callable[[str], None]) -> None:
        self._most = most
        self._path = path if most else None
        self._problem = problem

    def __repr__(self) -> str:
        return f"<attempts: at most {self._most or 'any number'}, kept in {self._path}>"

    def fail(self, error: BaseException | None, hands: Sequence[Sequence[Arrival]], refuse: Refuse) -> None:
        """Count the error against each message in hand; refuse those whose attempts are used up."""
        held = [one for hand in hands for one in hand]
        if self._path is None or not held or not _is_the_app_s(error):
            return
        try:
            counts = self._count(self._path, [one.id for one in held])
        except (OSError, ValueError, private_file.Exposed) as problem:
            self._problem(f"attempts cannot be counted in {self._path}: {problem}; move it away, and see to the disk")
            return
        for one in held:
            if counts[one.id] >= self._most:
                which = short(key_text("msg", one.id))
                said = f"this app failed {counts[one.id]} times on the message {which}, the last time with {error!r}"
                self._problem(f"{said[:SAID_MAX]}; it is refused, and the next one comes")
                refuse(one, Reason.PEER_REFUSED, f"the app failed on it {counts[one.id]} times")

    def _count(self, path: Path, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        for directory in (path.parent.parent, path.parent):
            private_file.make_directory(directory)
        with private_file.alone(path.parent):
            counts = _read(path)
            for one in ids:
                counts[one] = counts.pop(one, 0) + 1
            kept = list(counts.items())[-MESSAGES_MAX:]
            private_file.replace(path, "".join(f"{one.hex()} {count}\n" for one, count in kept).encode())
        return counts


def _read(path: Path) -> dict[MessageId, int]:
    try:
        text = private_file.read(path, MESSAGES_MAX * _LINE_BYTES_MAX)
    except FileNotFoundError:
        return {}
    lines = [line.split() for line in text.decode("ascii").splitlines()]
    return {MessageId(bytes.fromhex(one)): int(count) for one, count in lines}


def _is_the_app_s(error: BaseException | None) -> bool:
    """Whether the app itself failed, rather than being cancelled or losing its node."""
    if isinstance(error, ExceptionGroup):
        return error.split(NodeUnavailable)[1] is not None
    return isinstance(error, Exception) and not isinstance(error, NodeUnavailable)
