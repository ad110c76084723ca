"""The rotation of a home's node key, between two runs of its node: another key takes its place, by a statement of both.

    keys/node.rotating    a rotation that has begun: the new key and the statement; gone when it is finished

A crash at any step leaves a rotation that has not begun, or one that the next start, or the same command, finishes. The
old key is kept nowhere.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import NamedTuple

import cbor2

from router.core.control.node_copies import COPY, FoundCopy
from router.core.control.succeeding import NO_COPIES
from router.core.neighbours.renewals import CLOCK_SLACK_S
from router.core.wire.crypto import KEY_BYTES, SigningKey
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.succession import (
    ANSWERS_S,
    SUCCESSION_BYTES_MAX,
    KeySuccession,
    decode_succession,
    make_succession,
)
from router.core.wire.text import span_text
from router.disk import private_file
from router.disk.store.file import give_to, life_number, row_of
from router.settings import keyring, own_successions
from router.settings.home import Home
from router.settings.own_successions import KEPT_MAX, SuccessionError, line_of

FILE_NAME = "node.rotating"
AWAY_S = 7 * 86_400
"""How long a node may have been off, by its clock, for the clock to be believed without its neighbours'."""
_BEGUN = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]+)\n")
_BYTES_MAX = 2 * (KEY_BYTES + SUCCESSION_BYTES_MAX) + 2


class _Begun(NamedTuple):
    new: SigningKey
    statement: KeySuccession


def rotate(home: Home, now_s: int) -> KeySuccession:
    """Give the node of a home that is held another key, or finish a rotation that has begun; return the statement.
    Raise `SuccessionError`, `StoreError` or another error of the home, with what to do."""
    if (done := finish_begun(home)) is not None:
        return done
    _check_store(home, now_s)
    old = keyring.load(home, keyring.NODE)
    if len(own_successions.load(home.key_path.parent, old.public)) >= KEPT_MAX:
        raise SuccessionError(f"this node has had {KEPT_MAX} keys before, which is the most; make a new node")
    new = SigningKey(secrets.token_bytes(KEY_BYTES))
    statement = make_succession(old, new, now_s, now_s + ANSWERS_S)
    try:
        private_file.create(_path(home), f"{new.seed.hex()} {line_of(statement)}\n".encode())
    except OSError as error:
        raise _not_written(home, error) from None
    done = finish_begun(home)
    assert done is not None
    return done


def has_begun(home: Home) -> bool:
    """Whether a rotation has begun in the home, and is not finished."""
    return _path(home).exists()


def _check_store(home: Home, now_s: int) -> None:
    """Raise `SuccessionError` if neighbours would not believe the statement: for a wrong clock, or a copy of the
    home. It cannot be made again, as the old key is gone then."""
    path = home.store_path
    if now_s + ANSWERS_S > UINT32_MAX:
        raise SuccessionError("the clock of this machine is wrong, and no time after 2105 can be kept; set it first")
    if (said := row_of(path, "meta", b"clock")) is not None:
        trusted_s = cbor2.loads(said)[0] // 1_000_000_000
        if not -CLOCK_SLACK_S <= now_s - trusted_s <= AWAY_S:
            apart = span_text(abs(now_s - trusted_s))
            way = "ahead of" if now_s > trusted_s else "behind"
            raise SuccessionError(
                f"the clock of this machine is {apart} {way} the last time that this node trusted, and neighbours "
                f"believe no statement of a wrong time: set it; if it is right, start the node, run `router clock "
                f"confirm`, and repeat this command while the node runs"
            )
    if (said := row_of(path, "book", COPY)) is not None:
        found = FoundCopy.from_row(said)
        if found.run.life >= life_number(path):
            raise SuccessionError(f"{found.problem}. Do that before the key is rotated: {NO_COPIES}")


def finish_begun(home: Home) -> KeySuccession | None:
    """Finish the rotation that has begun in a home that is held; None if none has. Each step may be repeated."""
    begun = _read(_path(home))
    if begun is None:
        return None
    keys, said = home.key_path.parent, begun.statement
    present = keyring.load(home, keyring.NODE).public
    if present not in (said.old, said.new):
        raise SuccessionError(f"{_path(home)} is of another key than {home.key_path}; restore that, or move it away")
    try:
        if present == said.old:
            chain = own_successions.read(keys)
            own_successions.save(keys, chain if chain[-1:] == [said] else [*chain, said])
            give_to(home.store_path, bytes(said.old), bytes(said.new))
            private_file.replace(home.key_path, f"{begun.new.seed.hex()}\n".encode())
        private_file.remove(_path(home))
    except OSError as error:
        raise _not_written(home, error) from None
    return said


def _read(path: Path) -> _Begun | None:
    """Return the rotation in the file, None if there is none. Raises no error that holds the key."""
    line = private_file.read_worded(path, _BYTES_MAX)
    if line is None:
        return None
    if isinstance(line, str):
        raise SuccessionError(line)
    if (parts := _BEGUN.fullmatch(line)) is not None:
        new = SigningKey(bytes.fromhex(parts[1].decode()))
        try:
            statement = decode_succession(bytes.fromhex(parts[2].decode()))
        except ValueError:
            statement = None
        if statement is not None and statement.new == new.public and statement.verify():
            return _Begun(new, statement)
    said = f"{path} should hold a rotation that has begun, and holds {len(line)} other bytes"
    raise SuccessionError(f"{said}; restore it, or move it away if keys/node.key is still the old one")


def _path(home: Home) -> Path:
    return home.key_path.parent / FILE_NAME


def _not_written(home: Home, error: OSError) -> SuccessionError:
    said = f"the node's key cannot be rotated in {home.path}: {error.strerror or error}"
    return SuccessionError(f"{said}; see that there is room and writing is allowed, and repeat it")
