"""The audit reports what two logs tell otherwise: facts that belong to a message's id, and messages that one says the
other brought it.

The logs of many cases are audited at once: a case is two routers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from samples.audit_logs import APP, LATE, OTHER_APP, START, Log, audited, message_id, name
from samples.judged_logs import DAY_S, ids, log_of, pruned

from spark_analytics.judgement.schema import LEAP_MIN

# -- facts that belong to an id ---------------------------------------------------------------------------

UNLIKE: dict[str, tuple[dict[str, Any], str]] = {
    "ttl of one": ({"ttls": [60, 1]}, "ttl"),
    "ttl": ({"ttls": [70, 70]}, "ttl"),
    "expiry": ({"expiries": [30_000_001, 30_000_001]}, "expiry"),
    "size": ({"sizes": [500, 635]}, "size"),
    "group": ({"group": APP}, "source or group"),
    "kind": ({"kind": "unicast", "group": None, "source": message_id("group"), "destination": APP}, "kind"),
}
"""What the second of two logs tells otherwise, and the fact that this is."""
ALIKE: dict[str, dict[str, Any]] = {
    "the same": {},
    "34 bytes more": {"sizes": [534, 600]},
    "34 bytes less and more": {"sizes": [466, 634]},
    "a copy": {"kind": "copy"},
}


class Pairs(NamedTuple):
    """The audit of pairs of logs that accept the same two messages, and of which the second tells some columns
    otherwise."""

    found: dict[str, Any]
    logs: Mapping[str, tuple[Log, Log]]

    def claims(self, case: str) -> list[dict[str, Any]]:
        both = {name(log.key) for log in self.logs[case]}
        return [row for row in self.found["claims"] if {row["router"], row["peer"]} & both]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    directory = tmp_path_factory.mktemp("pairs")
    cases = {case: columns for case, (columns, _) in UNLIKE.items()} | ALIKE
    logs = {case: (log_of(f"a {case}"), log_of(f"b {case}")) for case in cases}
    for case, (here, there) in logs.items():
        given: dict[str, Any] = {"sizes": [500, 600], "ttls": [60, 70], "expiries": [30_000_000, 30_000_001]}
        here.state("start")
        here.accepted(1, ids(here, 2), [], **given)
        there.accepted(1, ids(here, 2), [], **given | cases[case])
        for log in (here, there):
            log.write(directory / name(log.key))
    return Pairs(audited(directory), logs)


@pytest.mark.parametrize("case", UNLIKE)
def test_facts_of_an_id_that_two_logs_tell_otherwise_are_told(case: str, pairs: Pairs) -> None:
    here, there = pairs.logs[case]
    fact = UNLIKE[case][1]
    [row] = pairs.claims(case)
    later, former = sorted((name(here.key), name(there.key)), reverse=True)
    seqs = {name(here.key): 2, name(there.key): 1}
    assert (row["router"], row["peer"], row["seq"], row["accepted_seq"]) == (later, former, seqs[later], seqs[former])
    count = 2 if fact in ("kind", "source or group") else 1
    assert row["count"] == count and row["id"] in map(message_id, ids(here, 2))
    assert Path(row["file"]).parent.name != Path(row["accepted_file"]).parent.name
    words = f"tell another {fact} of {count} message{'s' * (count > 1)}, although it belongs to the id"
    [said] = [one for one in pairs.found["findings"] if later in one["text"] and one["level"] == "bad"]
    assert words in said["text"] and former in said["text"]


@pytest.mark.parametrize("case", ALIKE)
def test_facts_that_may_differ_between_two_logs_are_no_claim(case: str, pairs: Pairs) -> None:
    """VIA belongs to a message as received, not to its id; a copy is the multicast that it is of."""
    assert pairs.claims(case) == []


SEVERAL: dict[str, tuple[list[dict[str, Any]], list[tuple[str, int, int]]]] = {
    "the first": ([{"ttls": [1]}, {}, {}], [("other-ttl", 0, 1)]),
    "the last": ([{}, {}, {"ttls": [1]}], [("other-ttl", 2, 0)]),
    "as many otherwise": ([{"ttls": [1]}, {}, {}, {"ttls": [1]}], [("other-ttl", 1, 0), ("other-ttl", 2, 0)]),
    "each otherwise": ([{"ttls": [1]}, {"ttls": [2]}, {}], [("other-ttl", 1, 0), ("other-ttl", 2, 0)]),
    "two lies": ([{"expiries": [7]}, {}, {"ttls": [1]}, {}], [("other-expiry", 0, 1), ("other-ttl", 2, 1)]),
    "VIA": ([{"sizes": [534]}, {"sizes": [500]}, {"sizes": [534]}], []),
    "VIA twice": ([{"sizes": [568]}, {"sizes": [534]}, {}, {"sizes": [534]}, {}], [("other-size", 0, 1)]),
}
"""Of logs in order of keys what each tells of a message, and the claims: the router, and the peer, by their place."""


def test_who_differs_from_most_routers_is_named_whatever_the_order_of_keys(tmp_path: Path) -> None:
    logs = {
        case: sorted((log_of(f"{one} of {case}") for one in range(len(told))), key=lambda log: name(log.key))
        for case, (told, _) in SEVERAL.items()
    }
    for case, own in logs.items():
        for log, columns in zip(own, SEVERAL[case][0], strict=True):
            given: dict[str, Any] = {"sizes": [500], "ttls": [60], "expiries": [30_000_000]}
            log.accepted(1, [case], [], **given | columns)
            log.write(tmp_path / name(log.key))
    rows = audited(tmp_path)["claims"]
    for case, (_, expected) in SEVERAL.items():
        places = {name(log.key): place for place, log in enumerate(logs[case])}
        found = [(row["claim"], places[row["router"]], places[row["peer"]]) for row in rows if row["router"] in places]
        assert found == expected, case


COPIES: dict[str, tuple[dict[str, Any], str | None]] = {
    "as it is": ({}, None),
    "with VIA": ({"sizes": [534]}, None),
    "without VIA": ({"sizes": [466]}, None),
    "ttl": ({"ttls": [1]}, "other-ttl"),
    "expiry": ({"expiries": [7]}, "other-expiry"),
    "size": ({"sizes": [533]}, "other-size"),
    "group": ({"group": APP}, "other-sender"),
}
"""What a router tells of the copies that it sends on otherwise than of the message, and the claim."""


def test_a_router_that_sends_on_copies_otherwise_than_it_had_the_message_is_told(tmp_path: Path) -> None:
    logs = {case: log_of(f"copies {case}") for case in COPIES}
    for case, log in logs.items():
        given: dict[str, Any] = {"sizes": [500], "ttls": [60], "expiries": [30_000_000], "group": message_id("group")}
        log.accepted(1, [case], [], **given)
        for parcel in (2, 3):
            log.accepted(parcel, [case], [OTHER_APP], kind="copy", **given | COPIES[case][0])
        log.write(tmp_path / name(log.key))
    found = audited(tmp_path)
    for case, (_, claim) in COPIES.items():
        key = name(logs[case].key)
        rows = [row for row in found["claims"] if row["router"] == key and row["claim"].startswith("other-")]
        told = [(row["claim"], row["peer"], row["count"], row["accepted_seq"], row["seq"]) for row in rows]
        assert told == ([] if claim is None else [(claim, key, 1, 1, 2)]), case
    said = [one["text"] for one in found["findings"] if "where it sends copies on" in one["text"]]
    assert len(said) == 4


# -- what a neighbour is said to have brought -------------------------------------------------------------

UNICAST: dict[str, Any] = {"kind": "unicast", "group": None, "source": APP, "destination": OTHER_APP}
MULTICAST: dict[str, Any] = {"kind": "multicast", "group": message_id("group"), "source": None, "destination": None}


class Hop:
    """A giver brings a taker two messages; only the taker reports `odd` in between; the giver hears that it has
    both."""

    def __init__(self, case: str, **columns: Any) -> None:
        self.taker, self.giver = log_of(f"taker {case}"), log_of(f"giver {case}")
        self.first, self.last, self.id = ids(self.taker, 3)
        self.giver.state("start", -9)
        self.giver.accepted(1, [self.first, self.last], [name(self.taker.key)], at=1)
        self.taker.accepted(1, [self.first], [], at=2, peer=name(self.giver.key))
        self.odd = self.taker.accepted(
            2, [self.id], [], at=3, **{**UNICAST, "peer": name(self.giver.key)} | columns
        )  # fmt: skip
        self.taker.accepted(3, [self.last], [], at=4, peer=name(self.giver.key))

    def write(self, directory: Path, *, hears: bool = True) -> None:
        if hears:
            self.giver.outward("acked", [(1, 2)], 5, recipient=name(self.taker.key))
        self.giver.state("stop", LATE)
        for log in (self.taker, self.giver):
            log.write(directory / name(log.key))


def hops() -> dict[str, Hop]:
    found = {
        "told": Hop("told"),
        "a multicast": Hop("a multicast", **MULTICAST),
        "signed by the giver": Hop("signed", source=name(log_of("giver signed").key)),
        "after its end": Hop("after"),
        "before its begin": Hop("early"),
        "carried": Hop("carried", **MULTICAST),
        "of a hole": Hop("hole"),
        "unheard": Hop("unheard"),
        "restored": Hop("restored"),
        "in a new store": Hop("new store"),
    }
    restored, anew = found["restored"].taker, found["in a new store"].taker
    restored.lines[:] = [replace(line, seq=line.seq + LEAP_MIN) for line in restored.lines]
    anew.lines[1:] = [replace(line, t=line.t + 60 * 10**9) for line in anew.lines[1:]]
    after, early, carried = found["after its end"], found["before its begin"], found["carried"]
    after.taker.lines[1:] = [replace(after.taker.lines[2], seq=2), replace(after.taker.lines[1], seq=3)]
    early.taker.lines[1] = replace(early.odd, t=START - 60 * 10**9)
    taker = name(carried.taker.key)
    carried.giver.accepted(9, ids(carried.giver, 1), [taker], peer=APP, **UNICAST | {"destination": taker})
    found["of a hole"].giver.lines[:1] = []
    return found


@pytest.fixture(scope="module")
def unsent(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Hop]]:
    directory, there = tmp_path_factory.mktemp("hops"), hops()
    for case, hop in there.items():
        hop.write(directory, hears=case != "unheard")
    return audited(directory, at=LATE + 1), there


def of_hop(found: dict[str, Any], hop: Hop) -> list[dict[str, Any]]:
    return [row for row in found["unsent"] if row["router"] == name(hop.taker.key)]


def test_a_message_that_the_neighbours_log_does_not_know_is_told(
    unsent: tuple[dict[str, Any], dict[str, Hop]],
) -> None:
    found, hop = unsent[0], unsent[1]["told"]
    [row] = of_hop(found, hop)
    assert (row["peer"], row["count"], row["seq"], row["id"]) == (name(hop.giver.key), 1, 2, message_id(hop.id))
    assert Path(row["file"]).parent.name == name(hop.taker.key)
    said = [one for one in found["findings"] if one["level"] == "bad" and name(hop.taker.key) in one["text"]]
    assert found["verdict"] == "bad" and "One of the two logs is wrong" in said[0]["text"]


@pytest.mark.parametrize(
    "case",
    [
        "signed by the giver",
        "after its end",
        "before its begin",
        "carried",
        "of a hole",
        "unheard",
        "restored",
        "in a new store",
    ],
)
def test_what_may_be_so_is_not_told(case: str, unsent: tuple[dict[str, Any], dict[str, Hop]]) -> None:
    """A difference is not reported if the neighbour signed the message, if it comes after the known end of its log or
    before its begin, if a carrier may have brought it, or if the neighbour's log has a hole. A router that was
    restored, or has a new store, accepts again what the neighbour had an acknowledgement of long before, maybe when the
    neighbour's log as given has ended."""
    assert of_hop(unsent[0], unsent[1][case]) == []


def test_of_multicasts_those_are_told_that_no_carrier_can_have_brought(
    unsent: tuple[dict[str, Any], dict[str, Hop]],
) -> None:
    assert [row["count"] for row in of_hop(unsent[0], unsent[1]["a multicast"])] == [1]


def test_of_a_pruned_log_what_it_may_have_had_before_is_not_told(tmp_path: Path) -> None:
    cases: dict[str, tuple[int, bool, str, int]] = {
        "told": (2 * DAY_S, False, "unicast", 1),
        "within a day": (DAY_S, False, "unicast", 0),
        "under a doubted clock": (2 * DAY_S, True, "unicast", 0),
        "a multicast": (2 * DAY_S, False, "multicast", 0),
    }
    takers = {case: log_of(f"pruned taker {case}") for case in cases}
    for case, (late_s, is_doubted, kind, _) in cases.items():
        taker, giver = takers[case], log_of(f"pruned giver {case}")
        quick, last, odd = ids(taker, 3)
        giver.state("start", -9)
        giver.accepted(1, [quick], [name(taker.key)], at=1, ttl=9 * DAY_S)
        giver.outward("acked", [(1, 1)], 3, recipient=name(taker.key))
        if is_doubted:
            giver.state("clock_step", 4, by_s=0, doubted=False)
        giver.accepted(2, [last], [name(taker.key)], at=late_s + 1)
        giver.outward("acked", [(2, 1)], late_s + 5, recipient=name(taker.key), parcel=2)
        taker.accepted(1, [quick], [], at=2, peer=name(giver.key))
        ends: dict[str, Any] = {"group": None, "source": APP, "destination": OTHER_APP} if kind == "unicast" else {}
        taker.accepted(2, [odd], [], at=late_s + 3, peer=name(giver.key), kind=kind, **ends)
        taker.accepted(3, [last], [], at=late_s + 4, peer=name(giver.key))
        pruned(giver, tmp_path / name(giver.key), [1], 1)
        taker.write(tmp_path / name(taker.key))
    found = audited(tmp_path, at=2 * DAY_S + LATE)["unsent"]
    counts = {
        case: sum(row["count"] for row in found if row["router"] == name(log.key)) for case, log in takers.items()
    }
    assert counts == {case: count for case, (*_, count) in cases.items()}
