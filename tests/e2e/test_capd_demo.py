"""`router capd demo` on real processes: the joint scene, in which every count must hold; and each count can fail."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from rig import ROUTER
from rigs.patience import HANG_S

from services.capd.demo.stage import NAMES, Played
from services.capd.demo.wallet import AGREED, DONE
from services.capd.demo_command import checked

ID = "00ab" * 16


@pytest.mark.long
def test_two_wallets_meet_over_both_kinds_of_link_and_a_kill() -> None:
    command = [*ROUTER, "capd", "demo", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * HANG_S, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] and done.returncode == 0, [one for one in found["checks"] if not one["holds"]]


def as_it_is_to_be() -> Played:
    return Played(
        offer={"id": ID}, waited=1, held=dict.fromkeys(NAMES, "relayed"), after_kill="relayed",
        bob={"taken": ID, "heard": AGREED}, alice={"to": ID[32:], "heard": DONE, "rescinded": [ID]},
        ended=dict.fromkeys(NAMES, "rescinded"), served=dict.fromkeys(NAMES, 0),
        wire={"announced": 1, "served": 1, "rescinded": 1, "served by one": 0, "found at two": 0},
        why={name: ["capd_accepted", "capd_rescinded"] for name in NAMES},
        audit={"services": [{"service": "capd", "unaccounted": 0}], "unaccounted": 0},
    )  # fmt: skip


def test_all_holds_if_all_is_as_it_is_to_be() -> None:
    assert all(one.holds for one in checked(as_it_is_to_be()))


FAULTS: dict[str, Callable[[Played], object]] = {
    "pools hold the offer": lambda seen: seen.held.pop("three"),
    "message waits": lambda seen: setattr(seen, "waited", 2),
    "announced to a client": lambda seen: seen.wire.update(announced=0),
    "served to that client": lambda seen: seen.wire.update(served=0),
    "after kill -9": lambda seen: setattr(seen, "after_kill", ""),
    "taken by Bob": lambda seen: seen.bob.update(taken="11" * 32),
    "reply that Alice": lambda seen: seen.alice.update(to="22" * 16),
    "read by the other": lambda seen: seen.bob.update(heard="nothing"),
    "offer rescinded": lambda seen: seen.alice.update(rescinded=[]),
    "hold it as rescinded": lambda seen: seen.ended.pop("two"),
    "secret told": lambda seen: seen.wire.update(rescinded=0),
    "pools serve it still": lambda seen: seen.served.update(two=1),
    "told of it when": lambda seen: setattr(seen, "told_again", 1),
    "serve it still to clients": lambda seen: seen.wire.update({"found at two": 1}),
    "router why": lambda seen: seen.why.update(two=["capd_accepted"]),
    "unaccounted": lambda seen: seen.audit.update(unaccounted=1),
}


@pytest.mark.parametrize("text", FAULTS)
def test_each_count_can_fail(text: str) -> None:
    seen = as_it_is_to_be()
    FAULTS[text](seen)
    [failed] = [one for one in checked(seen) if not one.holds]
    assert text in failed.text


def test_every_count_has_its_fault() -> None:
    assert len(list(checked(as_it_is_to_be()))) == len(FAULTS)
