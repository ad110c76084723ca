"""The lives of messages and standing queries: every state against every event."""

from __future__ import annotations

from itertools import product

import pytest

from router.core.link.machine import Agency, LocalProtocolError, Table
from services.capd.core.lives import (
    KEPT,
    MESSAGE,
    QUERY,
    Asking,
    Disclose,
    Displace,
    Expire,
    Life,
    Take,
    TurnAway,
    Withdraw,
    after,
)

STEPS: dict[tuple[Life | Asking, type], Life | Asking] = {
    (Life.COMING, Take): Life.HELD,
    (Life.COMING, TurnAway): Life.TURNED_AWAY,
    (Life.HELD, Expire): Life.EXPIRED,
    (Life.HELD, Disclose): Life.RESCINDED,
    (Life.HELD, Displace): Life.GONE,
    (Life.EXPIRED, Displace): Life.GONE,
    (Life.RESCINDED, Displace): Life.GONE,
    (Asking.ASKED, Take): Asking.STANDS,
    (Asking.ASKED, TurnAway): Asking.REFUSED,
    (Asking.STANDS, Take): Asking.STANDS,
    (Asking.STANDS, Withdraw): Asking.ENDED,
    (Asking.STANDS, Expire): Asking.OVER,
}


def test_after_follows_every_step_of_the_tables() -> None:
    for state, event in product((*Life, *Asking), (Take, TurnAway, Expire, Disclose, Displace, Withdraw)):
        if (state, event) in STEPS:
            assert after(state, event) is STEPS[state, event], (state, event)
        else:
            with pytest.raises(LocalProtocolError, match=f"{event.__name__} has no place in the state {state.name}"):
                after(state, event)


@pytest.mark.parametrize(("table", "states"), ((MESSAGE, Life), (QUERY, Asking)))
def test_states_are_all_reached_and_only_ends_have_no_step(table: Table, states: type[Life] | type[Asking]) -> None:
    reached = {next(iter(table))} | {to for (_, _), to in STEPS.items() if isinstance(to, states)}
    assert reached == set(states) == set(table)
    for state, row in table.items():
        assert (row.agency is Agency.NOBODY) is not any(at is state for at, _ in STEPS)


def test_kept_states_are_those_that_can_be_displaced() -> None:
    assert [state for state in Life if Displace in MESSAGE[state].on] == list(KEPT)
