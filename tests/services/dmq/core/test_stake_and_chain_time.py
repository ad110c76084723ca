"""Stake snapshots and the constants of networks: valid ones, and invalid ones with their remedies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from samples.dmq import POOLS, VECTORS

from services.dmq.core.stake import distribution as stake
from services.dmq.core.stake.chain_time import MAINNET, NETWORKS, PREPROD, BadGenesis, ChainTime, read_genesis
from services.dmq.core.stake.distribution import BadStake, read_stake

NAMES = [pool.id.hex() for pool in POOLS]
SNAPSHOT = {
    "pools": {
        NAMES[0]: {"stakeGo": 1, "stakeMark": 2, "stakeSet": 3},
        NAMES[1]: {"stakeGo": 1, "stakeMark": 2, "stakeSet": 0},
    },
    "total": {"stakeGo": 2, "stakeMark": 4, "stakeSet": 3},
}


def test_the_set_snapshot_alone_counts() -> None:
    found = read_stake(json.dumps(SNAPSHOT).encode(), 1000.0)
    assert found.pools == {POOLS[0].id: 3, POOLS[1].id: 0}
    assert found.age_s(1060.5) == 60.5
    assert repr(found) == "<StakeSet of 2 pools, as of 1000>"


@pytest.mark.parametrize(
    ("data", "cause"),
    (
        (json.dumps(SNAPSHOT).encode()[:-20], "ends in the middle, after"),
        (json.dumps(SNAPSHOT).encode()[:30], "ends in the middle, after 30 bytes"),
        (b"", "ends in the middle, after 0 bytes"),
        (b'{"pools": {"x"=1}}', "is no JSON: line 1, column 15"),
        (b"[]", 'has no object "pools"'),
        (b"{}", 'has no object "pools"'),
        (b'{"pools": []}', 'has no object "pools"'),
        (b'{"pools": {}}', "names 0 pools, and 1 to 50000 are taken"),
        (b"\xff\xfe", "is no text: byte 0 is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
        (json.dumps({"pools": {NAMES[0][:-2]: {"stakeSet": 1}}}).encode(), "which is no pool id of 56 hex digits"),
        (json.dumps({"pools": {"x" * 56: {"stakeSet": 1}}}).encode(), "which is no pool id of 56 hex digits"),
        (json.dumps({"pools": {NAMES[0]: {"stakeMark": 1}}}).encode(), "has no number of lovelace as stakeSet of pool"),
        (json.dumps({"pools": {NAMES[0]: {"stakeSet": -1}}}).encode(), "has -1, which is no number of lovelace"),
        (json.dumps({"pools": {NAMES[0]: {"stakeSet": 1.5}}}).encode(), "has 1.5, which is no number of lovelace"),
        (json.dumps({"pools": {NAMES[0]: {"stakeSet": True}}}).encode(), "has True, which is no number of lovelace"),
        (json.dumps({"pools": {NAMES[0]: {"stakeSet": 1 << 60}}}).encode(), "which is no number of lovelace"),
        (json.dumps({"pools": {NAMES[0]: 5}}).encode(), "has no number of lovelace as stakeSet of pool"),
    ),
)
def test_what_is_no_snapshot(data: bytes, cause: str) -> None:
    with pytest.raises(BadStake, match="give the unchanged output of cardano-cli query stake-snapshot") as raised:
        read_stake(data, 0)
    assert str(raised.value).startswith("the stake file ") and cause in str(raised.value)


def test_a_snapshot_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stake, "POOLS_MAX", 1)
    with pytest.raises(BadStake, match="names 2 pools, and 1 to 1 are taken"):
        read_stake(json.dumps(SNAPSHOT).encode(), 0)
    monkeypatch.setattr(stake, "STAKE_BYTES_MAX", 10)
    with pytest.raises(BadStake, match="longer than 10 bytes"):
        read_stake(json.dumps(SNAPSHOT).encode(), 0)


@pytest.mark.parametrize("vector", VECTORS["headers"], ids=lambda one: f"slot {one['slot']}")
def test_the_kes_period_of_real_blocks(vector: dict[str, Any]) -> None:
    at_s = MAINNET.anchor_s + vector["slot"] - MAINNET.anchor_slot
    assert MAINNET.slot_at(at_s) == MAINNET.slot_at(at_s + 0.9) == vector["slot"]
    assert MAINNET.kes_period_at(at_s) == vector["kes_period"]


@pytest.mark.parametrize("name", NETWORKS)
def test_epochs_begin_at_the_anchor(name: str) -> None:
    chain = NETWORKS[name]
    length_s = chain.slots_per_epoch * chain.slot_s
    begins = chain.anchor_s + 5 * length_s
    assert chain.epoch_start_s(begins) == chain.epoch_start_s(begins + length_s - 1) == begins
    found = read_stake(json.dumps(SNAPSHOT).encode(), begins)
    assert found.is_of_epoch(begins + length_s - 1, chain)
    assert not found.is_of_epoch(begins + length_s, chain) and not found.is_of_epoch(begins - 1, chain)


GENESIS = {
    "systemStart": "2022-06-01T00:00:00Z", "networkMagic": 42, "slotLength": 0.5, "slotsPerKESPeriod": 100,
    "epochLength": 500, "maxKESEvolutions": 60,
}  # fmt: skip


def test_a_genesis() -> None:
    begins = 1_654_041_600
    assert read_genesis(json.dumps(GENESIS).encode()) == ChainTime(0, begins, 0.5, 100, 500, 60)
    public = GENESIS | {"networkMagic": 1, "slotLength": 1, "slotsPerKESPeriod": 129_600, "epochLength": 432_000}
    assert read_genesis(json.dumps(public | {"maxKESEvolutions": 62}).encode()) == PREPROD


@pytest.mark.parametrize(
    "data",
    (
        b"",
        b"[]",
        b"null",
        *(json.dumps({name: one for name, one in GENESIS.items() if name != gone}).encode() for gone in GENESIS),
        json.dumps(GENESIS | {"maxKESEvolutions": 0}).encode(),
        json.dumps(GENESIS | {"epochLength": True}).encode(),
        json.dumps(GENESIS | {"slotLength": 0}).encode(),
        json.dumps(GENESIS | {"slotLength": "long"}).encode(),
        json.dumps(GENESIS | {"systemStart": "2022-06-01T00:00:00"}).encode(),
        json.dumps(GENESIS | {"systemStart": 5}).encode(),
    ),
)
def test_what_is_no_genesis(data: bytes) -> None:
    with pytest.raises(BadGenesis, match=r"name the network's|take the file as published"):
        read_genesis(data)
