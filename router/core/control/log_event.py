"""The verb `LogEvent`: services write events to the node's log, each once and at a limited rate."""

from __future__ import annotations

from typing import Any, ClassVar

from router.core.link.allowance import Allowance
from router.core.log import events as ev
from router.core.routing.kernel import Kernel
from router.core.routing.links import Link
from router.core.wire.now import Now
from router.service.verbs.log_event import LogEvents

from .part import Hears
from .rights import Rights
from .verb_part import VerbPart

NOTES_PER_S = 200.0
NOTES_BURST = 1000.0


class LoggedEvents(VerbPart):
    """Owns the rate of each service; the book holds the number of its last event in the log."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._services = kernel.directory.services
        self._book = kernel.book
        self._pending = kernel.pending
        self._rights = rights
        self._allowed: dict[bytes, Allowance] = {}

    def log(self, link: Link, said: LogEvents, now: Now) -> dict[str, Any]:
        """Log the events that the log does not hold yet, as many as the service's rate allows now; return the number of
        the last one in the log."""
        by = link.key
        service, epoch = self._services[by], bytes.fromhex(said.epoch)
        before = last = self._book.last_noted(by, epoch)
        allowed = self._allowed.setdefault(by, Allowance(NOTES_PER_S, NOTES_BURST))
        for number, one in enumerate(said.events, said.first):
            if number <= last:
                continue
            if one.event not in service.events and last > before:
                break
            if one.event not in service.events:
                text = f'the event "{one.event}" was not declared in the events.py of {service.name} when the node'
                return {"error": f"{text} started; start the node again if it is now"}
            if not allowed.take(1, now.mono_s):
                break
            ids = b"" if one.message is None else bytes.fromhex(one.message)
            fields = (("service", service.name), *one.fields.items())
            self._pending.changes.events.append(
                ev.Noted(now.wall_ns, now.mono_ns, one.event, by, ids, one.reason, fields)
            )
            last = number
        self._rights.write([self._book.note(by, epoch, last)])
        return {"noted": last}

    HEARS: ClassVar[Hears] = {LogEvents: log}
