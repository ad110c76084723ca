"""Protocols as tables: who may speak, which message leads where, within what time and bytes; and the machine that runs
one.

A new version of a protocol is a new table. A refused step raises and changes nothing. The machine returns the limits of
its present state, so that each limit is written in the table and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import inf
from typing import Any, TypedDict

from msgspec import Struct, field
from msgspec.structs import replace

from router.core.wire.reasons import Reason


class LocalProtocolError(Exception):
    """The fault is ours: our own code spoke out of turn or sent what the table does not allow."""


class RemoteProtocolError(Exception):
    """The fault is the peer's, and its session must be closed. `reason` goes over the wire and into the log.

    `before`: the valid events before the fault in the same read, to be handled first.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(f"{reason.word}: {text}")
        self.reason = reason
        self.text = text
        self.before: Sequence[Any] = ()


class Agency(Enum):
    """The side whose turn it is in a state."""

    INITIATOR = "initiator"
    RESPONDER = "responder"
    EITHER = "either"
    NOBODY = "nobody"

    __hash__ = object.__hash__  # sides are looked up with each message, and an enumeration hashes its names in Python


class Row(Struct, frozen=True):
    """One state: who may speak, which messages are allowed and where each leads, and the limits in time and bytes.

    `timeout_s` bounds the time in the state, `bytes_max` the length of each message in it."""

    agency: Agency
    on: Mapping[Any, Enum] = field(default_factory=dict)
    timeout_s: float = inf
    bytes_max: float = inf


Table = Mapping[Enum, Row]
"""A row for every state; the protocol begins in the first."""


class RowLimits(TypedDict, total=False):
    """The limits of a row that a configuration may override."""

    timeout_s: float
    bytes_max: float


def with_limits(table: Table, limits: Mapping[Enum, RowLimits]) -> Table:
    """Return the table with the limits replaced in the rows that `limits` names."""
    assert limits.keys() <= table.keys(), f"no row of the table: {limits.keys() - table.keys()}"
    return {state: replace(row, **limits.get(state, {})) for state, row in table.items()}


class Machine:
    """A running instance of a table, seen from the side `we`; it begins in `state`, by default the first row."""

    __slots__ = ("_row", "_state", "_table", "_we")

    def __init__(self, table: Table, state: Enum | None = None, *, we: Agency = Agency.INITIATOR) -> None:
        assert we in (Agency.INITIATOR, Agency.RESPONDER), f"{we} is not a side of a protocol"
        self._we = we
        self._table = table
        self.state = next(iter(table)) if state is None else state

    def __repr__(self) -> str:
        return f"<Machine of the {self._we.value} in {self.state.value}: {self.agency.value} may speak>"

    @property
    def state(self) -> Enum:
        return self._state

    @state.setter
    def state(self, state: Enum) -> None:
        self._state, self._row = state, self._table[state]

    @property
    def table(self) -> Table:
        """Return the table that is in force; another may be put in its place, as with other limits."""
        return self._table

    @table.setter
    def table(self, table: Table) -> None:
        self._table, self._row = table, table[self._state]

    @property
    def agency(self) -> Agency:
        """Return whose turn it is now."""
        return self._row.agency

    @property
    def done(self) -> bool:
        """Whether nobody may speak any more."""
        return self.agency is Agency.NOBODY

    @property
    def timeout_s(self) -> float:
        """Return how long the present state may last."""
        return self._row.timeout_s

    @property
    def bytes_max(self) -> float:
        """Return how long a message in the present state may be."""
        return self._row.bytes_max

    def step(self, speaker: Agency, message: object) -> Enum:
        """Move to the state after `message` (or a message of that class) from `speaker`, and return it.

        Raises `LocalProtocolError` if the fault is ours, `RemoteProtocolError` (malformed) if the peer's.
        """
        kind = message if isinstance(message, type) else type(message)
        row = self._row
        if row.agency not in (speaker, Agency.EITHER):
            raise self._error(speaker, f"{self._saying(speaker, kind)}, where it is the turn of {row.agency.value}")
        state = row.on.get(kind)
        if state is None:
            allowed = ", ".join(known.__name__ for known in row.on)
            raise self._error(speaker, f"{self._saying(speaker, kind)}, which allows {allowed}")
        self.state = state
        return state

    def _saying(self, speaker: Agency, kind: type) -> str:
        return f"{speaker.value} sent {kind.__name__} in {self.state.value}"

    def _error(self, speaker: Agency, text: str) -> LocalProtocolError | RemoteProtocolError:
        return LocalProtocolError(text) if speaker is self._we else RemoteProtocolError(Reason.MALFORMED, text)
