"""Carry out the deeds of a service's rules once they are committed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from router.core.wire.errors import CAUSE_CHARS_MAX, RouterError
from router.core.wire.text import printable
from router.service import contract as c
from router.service.alarm import Alarm
from router.service.cycle_changes import DeedSorter, unsent
from router.service.doors import Doors
from router.service.host import Service
from router.service.jobs import Jobs
from router.service.request_queue import RequestQueue
from router.service.requests import Requests
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from router.service.sending import UNKEPT, ToSend

informing = logging.getLogger("router.service.informing")
"""For what operators are told though nothing is wrong; they see it without --verbose, too."""
informing.setLevel(logging.INFO)


class CarryingOut:
    """Passes each deed to what carries it out. `hear` lets the rules hear what follows at once; `not_sent` logs why a
    message was not sent."""

    def __init__(
        self,
        host: Service,
        doors: Doors,
        jobs: Jobs,
        alarm: Alarm,
        ask: Requests,
        requests: RequestQueue,
        sorter: DeedSorter,
        hear: Callable[[c.Heard], None],
        not_sent: Callable[[str], None],
    ) -> None:
        self._host = host
        self._doors = doors
        self._jobs = jobs
        self._alarm = alarm
        self._ask = ask
        self._requests = requests
        self._sorter = sorter
        self._hear = hear
        self._not_sent = not_sent

    def __repr__(self) -> str:
        return f"<carrying out of deeds: {self._doors!r}, {self._jobs!r}, {self._requests!r}>"

    def carry_out(self, deed: c.Deed) -> None:
        """Carry out one deed, or begin to."""
        match deed:
            case d.WriteOnClose(door, peer, data):
                self._doors.write_at_end(door, peer, data)
            case c.Connect():
                self._doors.connect(deed)
            case d.UseInterfaces(door, interfaces):
                self._doors.attend(door, interfaces)
            case c.HandOver(door, peer):
                self._doors.hand(door, peer)
            case c.Compute(function, argument, tag):
                self._jobs.put(function, argument, tag)
            case c.Wake(at_s):
                self._alarm.set(at_s)
            case o.Attest(tag=tag):
                self._hear(o.Attested(tag, self._host.place.key.sign(deed.signed())))
            case c.Warn(text):
                self._host.warn(text)
            case c.Inform(text, mends):
                self._host.mended(mends)
                informing.info("%s: %s", self._host, printable(text)[:CAUSE_CHARS_MAX])
            case c.KeepOpen(door, peer):
                self._doors.keep_open(door, peer)
            case c.MarkKnown(door, peer):
                self._doors.mark_known(door, peer)
            case c.Send():
                self._send_unkept(deed)
            case c.Inquire() | d.DialBack() | o.ListHeld():
                self._host.nursery.start_soon(self._ask.do, deed)
            case _:
                if self._ask.begins(deed):
                    self._requests.put(deed)

    def _send_unkept(self, deed: c.Send) -> None:
        try:
            self._requests.put([ToSend(UNKEPT, deed.tag, self._sorter.wire(deed))])
        except RouterError as error:
            self.was_not_made(unsent(deed.tag, error))

    def was_not_made(self, sent: c.Sent) -> None:
        """Tell of a message that could not be made: the rules, if it has a tag, else the log."""
        if sent.tag:
            self._hear(sent)
        else:
            self._not_sent(sent.text)
