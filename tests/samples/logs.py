"""A log on a real directory, and a store that feeds it, for the tests of the event log."""

from pathlib import Path

from router.core.log.events import Event, Outward, encode_events, span
from router.core.log.line import Line, decode_line
from router.core.wire.crypto import SigningKey
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.index import INDEX
from router.disk.log.sealer import Sealer
from samples.log_facts import read_log

KEY, OTHER = SigningKey(b"r" * 32), SigningKey(b"x" * 32)
BOOT = bytes(range(16))
SECOND = 1_000_000_000


def outward(at_s: int, count: int = 1) -> Outward:
    return Outward(at_s * SECOND, 6, "delivered", bytes(32), 4, ((7, count),), None, 0, 9, 500, 7)


class Store:
    """The node's store as the log sees it: values by their last sequence number, deleted once they are sealed."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.last = 0

    def commit(self, *events: Event, boot: bytes = BOOT) -> bytes:
        value = encode_events(events, self.last + 1, boot)
        self.last += sum(map(span, events))
        self.values[self.last] = value
        return value

    def delete(self, up_to: int) -> None:
        self.values = {last: value for last, value in self.values.items() if last > up_to}


def open_log(directory: Path, **limits: float) -> tuple[Segments, Sealer]:
    segments = Segments(directory, KEY, LogLimits(**limits))  # type: ignore[arg-type]
    return segments, Sealer(segments)


def seal_each(directory: Path, *times_s: int) -> Segments:
    """Return a log with one segment of one event for each of the times."""
    segments, sealer = open_log(directory)
    store = Store()
    store.last = segments.last_sealed()
    for at_s in times_s:
        sealer.add(store.commit(outward(at_s)), 0)
        sealer.seal()
    return segments


def names(directory: Path) -> list[str]:
    """Return the names of the files, except the indexes beside segments."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith(INDEX))


def file_lines(path: Path) -> list[Line]:
    return [decode_line(line) for line in path.read_bytes().splitlines()]


def problems(directory: Path) -> list[str]:
    """Return all problems of the log of `KEY` in this directory."""
    return read_log(directory, KEY.public).problems
