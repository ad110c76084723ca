"""The stake distribution, which decides which pools may send, as `cardano-cli query stake-snapshot --all-stake-pools`
prints it.

`{"pools": {"<56 hex digits>": {"stakeSet": lovelace, …}, …}, …}`: `stakeSet` alone counts, as in the deployed nodes.
The file names no epoch, which follows from its age and the network's constants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec import Struct

from router.core.wire.text import counted

from ..messages.certificate import POOL_ID_BYTES, PoolId
from .chain_time import ChainTime

POOLS_MAX = 50_000
STAKE_BYTES_MAX = 32 << 20
LOVELACE_MAX = 45_000_000_000_000_000
"""The total supply of ada, in lovelace."""
AHEAD_S = 60.0
"""Seconds by which a snapshot's time must lie ahead of this machine's clock for one of both to be called wrong."""
SET_CLOCK = "set this machine's clock (`timedatectl`), or write the file anew, so that its time is right"
_REMEDY = "give the unchanged output of cardano-cli query stake-snapshot --all-stake-pools"


class BadStake(ValueError):
    """A file is no stake snapshot; the text says what is wrong and what to do."""


class StakeSet(Struct, frozen=True):
    """The active stake of each pool in lovelace, and the Unix second of the query."""

    pools: Mapping[PoolId, int]
    at_s: float

    def __repr__(self) -> str:
        return f"<StakeSet of {counted(len(self.pools), 'pool')}, as of {self.at_s:.0f}>"

    def age_s(self, wall_s: float) -> float:
        return wall_s - self.at_s

    def is_of_epoch(self, wall_s: float, chain: ChainTime) -> bool:
        """Whether the query was made in the epoch in which `wall_s` lies."""
        return chain.epoch_start_s(self.at_s) == chain.epoch_start_s(wall_s)


def read_stake(data: bytes, at_s: float) -> StakeSet:
    """Return the snapshot that was made at `at_s`; raise `BadStake` if any part of it is not one."""
    if len(data) > STAKE_BYTES_MAX:
        raise BadStake(f"the stake file is longer than {STAKE_BYTES_MAX} bytes; {_REMEDY}")
    pools = _pools(data)
    if not 0 < len(pools) <= POOLS_MAX:
        raise _bad(f"names {counted(len(pools), 'pool')}, and 1 to {POOLS_MAX} are taken")
    return StakeSet({_pool(name): _lovelace(name, stake) for name, stake in pools.items()}, at_s)


def _pools(data: bytes) -> dict[str, object]:
    """Return the pools of the snapshot as they stand there."""
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _bad(f"is no text: byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            raise _bad(f"ends in the middle, after {counted(len(data), 'byte')}") from None
        raise _bad(f"is no JSON: line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _bad("is nested too deeply") from None
    pools = found.get("pools") if isinstance(found, dict) else None
    if not isinstance(pools, dict):
        raise _bad('has no object "pools"')
    return pools


def _bad(what: str) -> BadStake:
    return BadStake(f"the stake file {what}; {_REMEDY}")


def _pool(name: str) -> PoolId:
    if not re.fullmatch(f"[0-9a-fA-F]{{{2 * POOL_ID_BYTES}}}", name):
        raise _bad(f'names "{name[:60]}", which is no pool id of {2 * POOL_ID_BYTES} hex digits')
    return PoolId(bytes.fromhex(name))


def _lovelace(name: str, pool: object) -> int:
    stake = pool.get("stakeSet") if isinstance(pool, dict) else None
    if type(stake) is not int or not 0 <= stake <= LOVELACE_MAX:
        said = "has no number" if stake is None else f"has {stake!r:.40}, which is no number"
        raise _bad(f"{said} of lovelace as stakeSet of pool {name[:16]}…")
    return stake
