"""The rotation of a home's node key, while its node is stopped: another key takes its place, by a statement of both.

    keys/node.rotating    a rotation that has begun: the new key and the statement; gone when it is finished

A crash at any step leaves a rotation that has not begun, or one that the next start, or the same command, finishes. The
old key is kept nowhere.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import NamedTuple

from router.core.wire.crypto import KEY_BYTES, SigningKey
from router.core.wire.succession import (
    ANSWERS_S,
    SUCCESSION_BYTES_MAX,
    KeySuccession,
    decode_succession,
    make_succession,
)
from router.disk import private_file
from router.disk.store.file import give_to
from router.settings import keyring, own_successions
from router.settings.home import Home
from router.settings.own_successions import KEPT_MAX, SuccessionError, line_of

FILE_NAME = "node.rotating"
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
