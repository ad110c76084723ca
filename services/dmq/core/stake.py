"""The stake distribution, which decides which pools may send, as `cardano-cli query stake-snapshot --all-stake-pools`
prints it.

`{"pools": {"<56 hex digits>": {"stakeSet": lovelace, …}, …}, …}`: `stakeSet` alone counts, as in the deployed nodes.
The file names no epoch, which follows from its age and the network's constants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from .certificate import POOL_ID_BYTES, PoolId
from .chain_time import ChainTime

POOLS_MAX = 50_000
STAKE_BYTES_MAX = 32 << 20
LOVELACE_MAX = 45_000_000_000_000_000
"""The total supply of ada, in lovelace."""
_REMEDY = "give the unchanged output of cardano-cli query stake-snapshot --all-stake-pools"


class BadStake(ValueError):
    """A file is no stake snapshot; the text says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class StakeSet:
    """The active stake of each pool in lovelace, and the Unix second of the query."""

    pools: Mapping[PoolId, int]
    at_s: float

    def __repr__(self) -> str:
        return f"<StakeSet of {len(self.pools)} pools, as of {self.at_s:.0f}>"

    def age_s(self, wall_s: float) -> float:
        return wall_s - self.at_s

    def is_of_epoch(self, wall_s: float, chain: ChainTime) -> bool:
        """Whether the query was made in the epoch in which `wall_s` lies."""
        return chain.epoch_start_s(self.at_s) == chain.epoch_start_s(wall_s)


def read_stake(data: bytes, at_s: float) -> StakeSet:
    """Return the snapshot that was made at `at_s`; raise `BadStake` if any part of it is not one."""
    if len(data) > STAKE_BYTES_MAX:
        raise BadStake(f"the stake file is longer than {STAKE_BYTES_MAX} bytes; {_REMEDY}")
    try:
        pools = json.loads(data)["pools"]
        found = {_pool(name): _lovelace(stake["stakeSet"]) for name, stake in pools.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        cause = f"{type(error).__name__}: {error}"[:120]
        raise BadStake(f"the stake file is not whole, or no stake snapshot ({cause}); {_REMEDY}") from None
    if not found or len(found) > POOLS_MAX:
        raise BadStake(f"the stake file names {len(found)} pools; 1 to {POOLS_MAX} are taken; {_REMEDY}")
    return StakeSet(found, at_s)


def _pool(name: str) -> PoolId:
    if len(name) != 2 * POOL_ID_BYTES:
        raise ValueError(f"{name[:60]!r} is no pool id of {2 * POOL_ID_BYTES} hex digits")
    return PoolId(bytes.fromhex(name))


def _lovelace(stake: object) -> int:
    if type(stake) is not int or not 0 <= stake <= LOVELACE_MAX:
        raise ValueError(f"{stake!r:.40} is no number of lovelace")
    return stake
