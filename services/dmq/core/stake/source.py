"""The schedule for reading the stake snapshot and the genesis, and the versions in force.

Reading happens elsewhere (services/dmq/sources.py). A snapshot that cannot be read changes nothing: the one in force
stays, with its age, and the operator sees why.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.text import age_text, counted
from router.service import contract as c

from ..holdings import Holdings
from ..messages.authentication import Moment
from ..messages.certificate import PoolId
from .chain_time import ChainTime
from .distribution import AHEAD_S, SET_CLOCK, StakeSet

FILE_S = 5.0
"""Seconds between two looks at the stake file."""
COMMAND_S = 1.0
"""Seconds between two checks whether the stake command has ended."""
FILE_LATE_S = 3600.0
"""Seconds of an epoch after which a stake file of an earlier one is reported."""
AGAIN_S = 60.0
"""Seconds after a fault until the command is run again, which is also the least age of a snapshot from an epoch's
begin."""
SOURCE = (
    "give --stake FILE|COMMAND to `router dmq serve`, or stake_file or stake_command in router.toml: the output of "
    "cardano-cli query stake-snapshot --all-stake-pools"
)
GENESIS, STAKE = "genesis", "stake"
BAD_GENESIS = "BadGenesis: "
"""How the error of a read begins that is the genesis's own fault."""
_STAKE = msgspec.msgpack.Decoder(tuple[float, int, dict[bytes, int]])
_CHAIN = msgspec.msgpack.Decoder(tuple[int, float, float, int, int, int])


class Sources(Struct, frozen=True):
    """The sources of stake and genesis; "" and () if there are none."""

    stake_file: str = ""
    stake_command: tuple[str, ...] = ()
    genesis: str = ""


class BadSource(c.CannotServe):
    """A genesis cannot be read, without which no message can be judged."""


class StakeSource:
    """Asks for the reads that are due, and takes the answers. `problem`: why the last snapshot could not be read, or
    ""."""

    def __init__(self, sources: Sources, holdings: Holdings) -> None:
        self._sources = sources
        self._holdings = holdings
        self._awaits_genesis = bool(sources.genesis)
        self._has_asked_again = False
        self._is_asking = False
        self._known_ns = 0
        self._next_s = 0.0
        self._has_tried = False
        self._told_epoch_s = 0.0
        self.problem = ""
        self._warned = ""

    def __repr__(self) -> str:
        return f"<StakeSource of {self._sources!r}: {self.problem or 'no problem'}>"

    @property
    def is_ready(self) -> bool:
        """Whether messages can be judged: everything that must be read first has been read, or could not be."""
        has_source = self._sources.stake_file or self._sources.stake_command
        has_stake = self._has_tried or self._holdings.authentication.stake is not None or not has_source
        return has_stake and not self._awaits_genesis

    def started(self, now: c.Now) -> list[c.Deed]:
        first = self._ask_genesis() if self._awaits_genesis else []
        return [*first, *self._without_source(now), *self.due(now)]

    def _ask_genesis(self) -> list[c.Deed]:
        return [c.Compute("services.dmq.sources:genesis", self._sources.genesis.encode(), GENESIS)]

    def _without_source(self, now: c.Now) -> list[c.Deed]:
        """Return a warning if stake comes from nowhere."""
        if self._sources.stake_file or self._sources.stake_command:
            return []
        stake = self._holdings.authentication.stake
        then = "every message is rejected (NotInitialized), since no pool is known"
        if stake is not None:
            then = f"the stake that was read before, {age_text(stake.age_s(now.wall_s))}, stays, and ages"
        return [c.Warn(f"no stake is named: {then}; {SOURCE}")]

    def due(self, now: c.Now) -> list[c.Deed]:
        """Return the question that is due, if any."""
        if self._is_asking or now.mono_s < self._next_s:
            return []
        if self._sources.stake_file:
            argument = msgspec.msgpack.encode((self._sources.stake_file, self._known_ns))
            return [*self._ask("stake_file", argument), *self._late(now)]
        if self._sources.stake_command and self._is_of_another_epoch(now):
            return self._ask("stake_command", msgspec.msgpack.encode(self._sources.stake_command))
        return []

    def computed(self, heard: c.Computed, now: c.Now) -> list[c.Deed]:
        """Take a read's result; raise `BadSource` for a genesis that could not be read."""
        if heard.tag == GENESIS:
            if heard.error and not heard.error.startswith(BAD_GENESIS) and not self._has_asked_again:
                self._has_asked_again = True  # what read it has died: nothing is known about the file
                return self._ask_genesis()
            if heard.error:
                raise BadSource(f"the genesis {self._sources.genesis}: {heard.error.removeprefix(BAD_GENESIS)}")
            self._awaits_genesis = False
            authentication = self._holdings.authentication
            authentication.topic = replace(authentication.topic, chain=ChainTime(*_CHAIN.decode(heard.result)))
            return []
        self._is_asking = False
        if heard.error:
            return self._failed(heard.error.removeprefix("BadStake: "), now)
        if heard.result:
            return self._learned(*_STAKE.decode(heard.result), now)
        self._next_s = now.mono_s + (FILE_S if self._sources.stake_file else COMMAND_S)
        return []

    def _ask(self, function: str, argument: bytes) -> list[c.Deed]:
        self._is_asking = True
        return [c.Compute(f"services.dmq.sources:{function}", argument, STAKE)]

    def _learned(self, at_s: float, changed_ns: int, pools: dict[bytes, int], now: c.Now) -> list[c.Deed]:
        is_news = bool(self._warned) or not self._has_tried
        self.problem, self._has_tried, self._known_ns = "", True, changed_ns
        mended, self._warned = self._warned, ""
        self._next_s = now.mono_s + (FILE_S if self._sources.stake_file else AGAIN_S)
        stake = StakeSet({PoolId(pool): lovelace for pool, lovelace in pools.items()}, at_s)
        note = c.LogEvent("dmq_stake", fields={"pools": len(pools), "at": int(at_s)})
        age_s = stake.age_s(now.wall_s)
        said = f"the stake distribution holds {counted(len(pools), 'pool')}, and is {age_text(age_s)}"
        said += f": {SET_CLOCK}" if age_s <= -AHEAD_S else ""
        return [*self._holdings.learn(stake), note, *([c.Inform(said, mended)] if is_news else ())]

    def _failed(self, error: str, now: c.Now) -> list[c.Deed]:
        self._has_tried = True
        self._next_s = now.mono_s + (FILE_S if self._sources.stake_file else AGAIN_S)
        if error == self.problem:
            return []
        self.problem = error
        has_one = self._holdings.authentication.stake is not None
        then = "the stake that was read before stays" if has_one else "until it can be read, every message is refused"
        self._warned = f"{error}; {then}"
        return [c.LogEvent("dmq_stake", fields={"problem": error[:500]}), c.Warn(self._warned)]

    def _late(self, now: c.Now) -> list[c.Deed]:
        """Return a warning, once an epoch, if the stake file is still of an earlier one."""
        stake, chain = self._holdings.authentication.stake, self._holdings.authentication.topic.chain
        epoch_s = chain.epoch_start_s(now.wall_s)
        if stake is None or stake.at_s >= epoch_s or epoch_s == self._told_epoch_s:
            return []
        if now.wall_s < epoch_s + FILE_LATE_S:
            return []
        self._told_epoch_s = epoch_s
        said = f"the stake file {self._sources.stake_file} is of another epoch, {stake.age_s(now.wall_s) / 86400:.1f} "
        said += "days old: pools that have got stake since are refused; write it anew in each epoch"
        self._warned = said
        return [c.Warn(said)]

    def _is_of_another_epoch(self, now: c.Now) -> bool:
        authentication = self._holdings.authentication
        stake = authentication.stake
        return stake is None or not stake.is_of_epoch(now.wall_s, authentication.topic.chain)


def moment_of(now: c.Now) -> Moment:
    """Return the host's time in the form of the checks."""
    return Moment(now.wall_s, now.mono_s)
