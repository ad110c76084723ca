"""The checks of `router dmq demo --network` find what is missing, read twice, or not refused."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from services.dmq.core.stake.chain_time import NETWORKS
from services.dmq.demo.network_checks import network_checks
from services.dmq.demo.network_script import network_script
from services.dmq.demo.network_stage import DIALS, NAMES, NetworkPlayed

NOW_S = time.time()
SCRIPT = network_script(NETWORKS["preview"].kes_period_at(NOW_S), NOW_S)
ALL = [*SCRIPT.first, *SCRIPT.meanwhile, *SCRIPT.after, SCRIPT.by_unicast]

UNPUBLISHED = {"recipient": "group dmq-preview", "reason": "no-route", "count": 1}


def played() -> NetworkPlayed:
    """Return what is seen of a network in which all went well."""
    group = {"heard": 2, "rejected": {"dmq:bad-signature": 1}}
    statuses = {name: {"accepted": len(ALL), "group": dict(group)} for name in DIALS}
    audit = {"unaccounted": 0, "services": [{"service": "dmq", "unaccounted": 0, "doubled": 0}], "service_ends": []}
    return NetworkPlayed(list(ALL), {name: list(ALL) for name in NAMES}, statuses, b"", audit)


def failed(found: NetworkPlayed) -> list[str]:
    return [one.text for one in network_checks(SCRIPT, found) if not one.holds]


def test_all_holds_where_all_went_well_and_the_reader_may_read_the_forged_one() -> None:
    found = played()
    found.read["reader"].append(SCRIPT.forged)
    assert len(set(ALL)) == 15 and failed(found) == []


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda found: found.read["second"].pop(), "read by the consumer of second"),
        (lambda found: found.read["apart"].append(ALL[0]), "read twice by the consumer of apart"),
        (lambda found: found.read["reader"].pop(), "read by router sub --raw, without a DMQ node"),
        (lambda found: found.statuses["hub"].update(accepted=14), "taken by each DMQ node"),
        (lambda found: found.statuses["hub"]["group"]["rejected"].clear(), "of the group's DMQ nodes have refused a"),
        (lambda found: found.audit.update(unaccounted=1), "unaccounted for by router audit"),
        (lambda found: found.audit["service_ends"].append(UNPUBLISHED), "owed to the group and not published there"),
        (lambda found: found.accepted.pop(), "messages handed in, one of them by a unicast"),
    ],
)
def test_what_went_wrong_is_named(harm: Callable[[NetworkPlayed], object], named: str) -> None:
    found = played()
    harm(found)
    [text] = failed(found)
    assert text.startswith(named)
