"""Which alarms stand by the lines of the log, for a start that finds no account beside it (`account_file`)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from router.core.log.alarms import ALARM, StandingAlarms
from router.disk.log.eventlog import SealedSegment
from router.disk.log.file import lines_of
from router.disk.log.line_form import read_line
from router.disk.log.packed import open_text

log = logging.getLogger(__name__)

BYTES_MAX = 64 << 20
"""Most bytes of segments with alarms that are read, the newest. A segment is closed at once when an alarm is in it."""
_MARK = f'"event":"{ALARM}"'.encode()


def standing_by(kept: Sequence[SealedSegment]) -> StandingAlarms:
    """Return the alarms that stand by the segments that are kept, the oldest first. Of those whose footer counts
    alarms, the newest are read, `BYTES_MAX` at most; what was not read is logged."""
    having = [one for one in kept if (one.footer.counts or {}).get(ALARM)]
    first, room = len(having), BYTES_MAX
    while first and having[first - 1].size <= room:
        first -= 1
        room -= having[first].size
    if first:
        last_seq = having[first - 1].footer.last_seq
        log.warning("alarms up to event %d of the log are not read: those that still stand are not known", last_seq)
    found = StandingAlarms()
    for one in having[first:]:
        try:
            for fields in _said_in(one):
                found.note(fields)
        except (OSError, ValueError) as error:
            log.warning("alarms in %s are not known: %s", one.path, error)
    return found


def _said_in(one: SealedSegment) -> Iterator[list[tuple[str, object]]]:
    """Yield the fields of each alarm in a segment. Raise `OSError` or `ValueError` where it cannot be read."""
    with open_text(one.path) as file:
        for line in lines_of(file, one.size):
            if _MARK not in line:
                continue
            row = read_line(line.rstrip(b"\n"))
            if row.event == ALARM:
                yield [(name, _value(name, value)) for name, value in (row.fields or {}).items()]


def _value(name: str, value: object) -> object:
    """Return the value of a field as its event has it: a key as bytes."""
    if name != "peer" or not isinstance(value, str):
        return value
    try:
        return bytes.fromhex(value)
    except ValueError:
        return value
