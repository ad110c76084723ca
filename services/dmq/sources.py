"""Read the node's outside sources in a separate process: the stake snapshot, from a file or a command, and the genesis.
The result is small and checked; a fault is raised, and the operator reads its text."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from msgspec.structs import astuple

from .core.stake.chain_time import GENESIS_BYTES_MAX, BadGenesis, read_genesis
from .core.stake.distribution import STAKE_BYTES_MAX, BadStake, StakeSet, read_stake

COMMAND_S_MAX = 600.0
_SAID_CHARS_MAX = 200


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    printed: IO[bytes]
    said: IO[bytes]
    began_s: float


_running: dict[tuple[str, ...], _Running] = {}


def stake_file(argument: bytes) -> bytes:
    """Return the stake in a file, b"" if the file is still that of `known_ns`. The argument holds its path and
    `known_ns`."""
    path, known_ns = msgspec.msgpack.decode(argument, type=tuple[str, int])
    try:
        with Path(path).open("rb") as file:
            changed_ns = os.fstat(file.fileno()).st_mtime_ns
            if changed_ns == known_ns:
                return b""
            data = file.read(STAKE_BYTES_MAX + 1)
    except OSError as error:
        raise BadStake(f"the stake file {path} cannot be read: {error.strerror}; see to it") from None
    try:
        return encoded(read_stake(data, changed_ns / 10**9), changed_ns)
    except BadStake as error:
        raise BadStake(f"{path}: {error}") from None


def stake_command(argument: bytes) -> bytes:
    """Start the command, or check whether it has ended: return b"" while it runs, then the stake that it has
    printed."""
    words = tuple(msgspec.msgpack.decode(argument, type=list[str]))
    found = _running.get(words)
    if found is None:
        _running[words] = _begun(words)
        return b""
    code = found.process.poll()
    if code is None and time.monotonic() - found.began_s < COMMAND_S_MAX:
        return b""
    del _running[words]
    with found.printed, found.said:
        if code is None:
            found.process.kill()
            found.process.wait()
            raise BadStake(f"the stake command {words[0]} has not ended within {COMMAND_S_MAX:.0f} s; see what it does")
        if code:
            found.said.seek(0)
            said = " ".join(found.said.read(4096).decode("utf-8", "replace").split())[-_SAID_CHARS_MAX:]
            told = f", and said: {said}" if said else ""
            raise BadStake(f"the stake command {words[0]} ended with exit code {code}{told}; run it by hand")
        found.printed.seek(0)
        return encoded(read_stake(found.printed.read(STAKE_BYTES_MAX + 1), time.time()), 0)


def genesis(argument: bytes) -> bytes:
    """Return the constants of the genesis file of this path."""
    path = argument.decode()
    try:
        with Path(path).open("rb") as file:
            data = file.read(GENESIS_BYTES_MAX + 1)
    except OSError as error:
        raise BadGenesis(f"it cannot be read: {error.strerror}; see to it") from None
    return msgspec.msgpack.encode(astuple(read_genesis(data)))


def _begun(words: tuple[str, ...]) -> _Running:
    printed, said = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # closed by `stake_command`
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=said)
    except OSError as error:
        printed.close()
        said.close()
        raise BadStake(f"the stake command {words[0]} cannot be run: {error.strerror}; name its path") from None
    return _Running(process, printed, said, time.monotonic())


def encoded(stake: StakeSet, changed_ns: int) -> bytes:
    """Return the bytes that the rules read: the stake of each pool, its time, and the time of the file's change."""
    pools = {bytes(pool): lovelace for pool, lovelace in stake.pools.items()}
    return msgspec.msgpack.encode((stake.at_s, changed_ns, pools))
