"""The three tests of a protocol table: it matches the specification, each step is judged, all is reachable."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest

from router.core.link.machine import Agency, LocalProtocolError, Machine, RemoteProtocolError, Table

SIDES = (Agency.INITIATOR, Agency.RESPONDER)


def check_spec(table: Table, spec: str) -> None:
    """Check that the table is the specification's, copied as lines `state agency [seconds] [bytes] [message ->
    state]…`.

    Example: `StBusy responder 20s 65535B MsgAccept -> StIdle MsgReject -> StIdle`; it begins in the first line.
    """
    assert [_line(table, state) for state in table] == [" ".join(line.split()) for line in spec.strip().splitlines()]


def _line(table: Table, state: object) -> str:
    [(name, row)] = [(key.value, row) for key, row in table.items() if key is state]
    limits = [f"{row.timeout_s:g}s"] if row.timeout_s < inf else []
    limits += [f"{row.bytes_max:.0f}B"] if row.bytes_max < inf else []
    steps = [f"{kind.__name__} -> {to.value}" for kind, to in row.on.items()]
    return " ".join([str(name), row.agency.value, *limits, *steps])


def check_every_step(table: Table) -> None:
    """Check every state × message × speaker × side: the table's step, or the right error without a change."""
    kinds = [*dict.fromkeys(kind for row in table.values() for kind in row.on), object]
    for (state, row), kind, speaker, we in product(table.items(), kinds, SIDES, SIDES):
        machine = Machine(table, state, we=we)
        if row.agency in (speaker, Agency.EITHER) and kind in row.on:
            assert machine.step(speaker, kind) is row.on[kind] is machine.state
            continue
        wrong = LocalProtocolError if speaker is we else RemoteProtocolError
        with pytest.raises(wrong, match=str(state.value)):
            machine.step(speaker, kind)
        assert machine.state is state, f"a refused {kind.__name__} moved {state.name} to {machine.state.name}"


def check_reachable(table: Table) -> None:
    """Check that every state can be reached, every step leads to a row, the protocol ends only where neither side may
    speak, and no limit forbids everything that a state allows."""
    reached = {next(iter(table))}
    while more := {to for state in reached for to in table[state].on.values()} - reached:
        reached |= more
    assert reached == set(table), f"not connected: {reached ^ set(table)}"
    for state, row in table.items():
        assert bool(row.on) is (row.agency is not Agency.NOBODY), f"{state.name} is a dead end or speaks for nobody"
        assert min(row.timeout_s, row.bytes_max) > 0, f"{state.name} has a limit that nothing can keep"
