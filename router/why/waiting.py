"""Events that services of a stopped node have committed but not yet handed to its log: they are read from the services'
state.

A service hands them over when it runs again; until then `router why` reads them here. A state that cannot be read is
skipped: the service reports that when it is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from msgspec.structs import replace

from router.core.log.events import ID_BYTES, reason_word
from router.core.log.line import VERSION, Line
from router.core.why.fate import Trace
from router.core.why.id_prefix import IdPrefix
from router.disk.log.search import FoundEvents
from router.disk.room import DATA
from router.disk.state.environment import StateError
from router.disk.state.service_state import State
from router.service.host import STATES
from router.settings import keyring
from router.settings.config_services import key_name
from router.settings.home import Home

EVENTS_BYTES_MAX = 64 << 20


def with_waiting(found: FoundEvents, home: Home, prefix: IdPrefix) -> FoundEvents:
    """Add to the search result the events about that message that wait for the log, if they name only one message."""
    waiting = [(identity, line) for identity, line in _waiting(home) if prefix.fits(identity)]
    trace = found.trace
    if trace is None:
        if found.candidates or len({identity for identity, _ in waiting}) != 1:
            return found
        trace = Trace(waiting[0][0])
    own = [line for identity, line in waiting if identity == trace.identity]
    return replace(found, trace=replace(trace, noted=(*trace.noted, *_not_in(own, trace.noted))))


def _not_in(waiting: Sequence[Line], logged: Sequence[Line]) -> Iterator[Line]:
    """Yield the events that the log does not have: a crash may have come between the log's commit and the service's."""
    known = [(line.event, line.signer, line.fields) for line in logged]
    yield from (line for line in waiting if (line.event, line.signer, line.fields) not in known)


def _waiting(home: Home) -> Iterator[tuple[bytes, Line]]:
    folders = home.path / STATES
    for folder in sorted(folders.iterdir()) if folders.is_dir() else ():
        file = folder / DATA
        if file.exists() and keyring.fault(home, key_name(folder.name)) == "":
            yield from _of(home, folder.name, file.stat().st_mtime_ns)


def _of(home: Home, name: str, written_ns: int) -> Iterator[tuple[bytes, Line]]:
    """Yield id and line of each event in a service's state; their time is that of its last commit."""
    key = keyring.load(home, key_name(name)).public.hex()
    try:
        with closing(State(home.path / STATES / name)) as state:
            events = state.events(EVENTS_BYTES_MAX)[1]
    except StateError:
        return
    for one in map(json.loads, events):
        about = bytes.fromhex(one.get("message", ""))
        for at in range(0, len(about), ID_BYTES):
            yield about[at : at + ID_BYTES], _line(one, name, key, written_ns)


def _line(event: dict[str, Any], name: str, key: str, written_ns: int) -> Line:
    reason = event.get("reason")
    return Line(
        VERSION,
        event["event"],
        n=1,
        t=written_ns,
        signer=key,
        ids=event["message"],
        reason=None if reason is None else reason_word(reason),
        fields={"service": name, **event.get("fields", {})},
    )
