"""The audit arithmetic over the nodes' logs: every message and recipient ends once, or is still queued."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from router.core.log.events import COPY, Accepted, Event, Logged, Outward, RouterChange, Turned, span

ENDS = ("delivered", "acked", "unconfirmed", "expired", "refused", "dropped")


@dataclass
class Ledger:
    """The contents of one node's log. A pair is (arrival number, recipient)."""

    ids: dict[int, bytes] = field(default_factory=dict)  # arrival -> id
    copies: set[int] = field(default_factory=set)  # arrivals of what a service has sent on, under ids that are known
    parcels: dict[int, int] = field(default_factory=dict)  # arrival -> first arrival of its accepted event
    destinations: dict[bytes, bytes | None] = field(default_factory=dict)  # id -> destination of a unicast
    ends: dict[tuple[int, bytes], list[str]] = field(default_factory=dict)  # pair -> terminal states
    handed: dict[tuple[int, bytes], int] = field(default_factory=lambda: defaultdict(int))
    turned: list[Turned] = field(default_factory=list)
    states: list[RouterChange] = field(default_factory=list)
    ranges: int = 0

    def of_id(self, identity: bytes) -> dict[bytes, list[str]]:
        """Return recipient -> its terminal states for this message."""
        return {whom: ends for (at, whom), ends in self.ends.items() if self.ids[at] == identity}

    def accepted(self) -> set[bytes]:
        return set(self.ids.values())

    def ended(self, state: str) -> set[tuple[bytes, bytes]]:
        """Return (id, recipient) of all deliveries that ended in this state."""
        return {(self.ids[at], whom) for (at, whom), ends in self.ends.items() if state in ends}

    def refusals(self) -> dict[int, int]:
        """Count the messages that were turned away, by reason."""
        found: dict[int, int] = defaultdict(int)
        for one in self.turned:
            if one.event == "refused":
                found[one.reason] += one.count
        return dict(found)


def read(log: Iterable[Logged]) -> Ledger:
    """Read a log, and check that sequence numbers have no gap, arrivals and ids are accepted once, nothing ends without
    an acceptance, and each outward event names its accepted event."""
    ledger = Ledger()
    following = 1
    for first_seq, _, events in log:
        assert first_seq == following or _begins_a_life(events, first_seq, following), (
            f"sequence numbers: {first_seq} follows {following - 1}"
        )
        following = first_seq
        following += sum(map(span, events))
        for event in events:
            _enter(ledger, event)
    indexed = [id for at, id in ledger.ids.items() if at not in ledger.copies]
    assert len(set(indexed)) == len(indexed), "an id was accepted twice"
    return ledger


def accepted(log: Iterable[Logged]) -> set[bytes]:
    """Return the ids that were accepted in a part of a log."""
    taken = [event.ids for _, _, events in log for event in events if isinstance(event, Accepted)]
    return {ids[at : at + 32] for ids in taken for at in range(0, len(ids), 32)}


def _begins_a_life(events: Iterable[Event], first_seq: int, following: int) -> bool:
    """Whether the first of these events says that the numbers of a new life leap to it, from those of a snapshot."""
    first = next(iter(events))
    fields = dict(first.fields) if isinstance(first, RouterChange) and first.event == "start" else {}
    return fields.get("life_seq") == first_seq and fields.get("after_seq") == following - 1


def _enter(ledger: Ledger, event: Event) -> None:
    match event:
        case Accepted():
            for at in range(span(event)):
                assert event.first + at not in ledger.ids, "an arrival number was given twice"
                ledger.ids[event.first + at] = event.ids[at * 32 : at * 32 + 32]
                if event.kind == COPY:
                    ledger.copies.add(event.first + at)
                ledger.parcels[event.first + at] = event.first
                ledger.destinations[event.ids[at * 32 : at * 32 + 32]] = event.destination
                for recipient in event.recipients:
                    ledger.ends[event.first + at, recipient] = []
        case Outward():
            arrivals = [at for first, count in event.ranges for at in range(first, first + count)]
            assert {ledger.parcels[at] for at in arrivals} == {event.parcel}, f"{event.event}: another parcel's"
            if event.event == "pulled":
                return  # answers a question, and is owed to no recipient
            ledger.ranges += len(event.ranges)
            for pair in ((at, event.recipient) for at in arrivals):
                assert pair in ledger.ends, f"{event.event}: was never owed"
                if event.event == "forwarded":
                    ledger.handed[pair] += 1
                elif event.event in ENDS:
                    ledger.ends[pair].append(event.event)
        case Turned():
            ledger.turned.append(event)
        case RouterChange():
            ledger.states.append(event)


def check(ledger: Ledger, pending: set[tuple[int, bytes]]) -> None:
    """Check that owed = delivered + acked + unconfirmed + expired + refused + dropped + pending, pair by pair."""
    wrong: list[Any] = []
    for pair, ends in ledger.ends.items():
        if len(ends) + (pair in pending) != 1:
            wrong.append((pair[0], pair[1].hex()[:8], ends, "pending" if pair in pending else ""))
    assert not wrong, f"{len(wrong)} of {len(ledger.ends)} pairs do not end once: {wrong[:5]}"
    assert pending <= set(ledger.ends), "something is queued that was never owed"
