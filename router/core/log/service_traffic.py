"""Counts of what the services of routers say to each other, such as discovery, apart from what people and apps send."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .account import ENDS
from .events import ID_BYTES, Accepted, Event, EventCounts, Outward, Turned, stands_for

OPEN_MAX = 4_096
"""Parcels of services without an end that are remembered; what follows from further ones counts as people's."""


class TrafficCounts(EventCounts):
    """Counts of all messages, and apart those that a service of this router has signed or gets (`of_services`).
    `is_between_services`: whether a message is, by its signer and destination."""

    def __init__(self, is_between_services: Callable[[bytes, bytes | None], bool]) -> None:
        super().__init__()
        self._is_between_services = is_between_services
        self._open: dict[int, int] = {}  # by first arrival number of the parcel: deliveries without an end
        self.of_services = EventCounts()

    def __repr__(self) -> str:
        return f"{super().__repr__()}, of services {self.of_services!r}, {len(self._open)} of their parcels open"

    def add(self, events: Iterable[Event]) -> None:
        """Count these events."""
        events = list(events)
        super().add(events)
        self.of_services.add([event for event in events if self._is_of_service(event)])

    def apart(self, waiting: Iterable[Turned]) -> tuple[EventCounts, EventCounts]:
        """Return the counts of what people and apps send, and those of services. `waiting`: events that are not yet
        written, and will be given to `add`."""
        waiting = list(waiting)
        of_services = self.of_services.plus(event for event in waiting if self._is_of_service(event))
        return self.plus(waiting).minus(of_services), of_services

    def _is_of_service(self, event: Event) -> bool:
        match event:
            case Accepted():
                if not self._is_between_services(event.signer, event.destination):
                    return False
                if event.recipients:
                    while len(self._open) >= OPEN_MAX:
                        del self._open[next(iter(self._open))]
                    self._open[event.first] = len(event.ids) // ID_BYTES * len(event.recipients)
                return True
            case Outward():
                return self._is_open(event)
            case Turned():
                return event.signer is not None and self._is_between_services(event.signer, None)
        return False

    def _is_open(self, event: Outward) -> bool:
        open_ones = self._open.get(event.parcel)
        if open_ones is None:
            return False
        if event.event in ENDS:
            rest = open_ones - stands_for(event)
            if rest > 0:
                self._open[event.parcel] = rest
            else:
                del self._open[event.parcel]
        return True
