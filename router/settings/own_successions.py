"""The statements by which the keys of this home's node have followed each other, for its hello on each link.

keys/node.successions    one statement in hex a line, the oldest first; the last one is for the present key
"""

from __future__ import annotations

from pathlib import Path

from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.succession import (
    FOLLOWED_MAX,
    SUCCESSION_BYTES_MAX,
    KeySuccession,
    decode_succession,
    encode_succession,
    is_chain,
)
from router.disk import private_file

FILE_NAME = "node.successions"
KEPT_MAX = FOLLOWED_MAX
"""The most statements that are kept."""


class SuccessionError(RouterError):
    """The file cannot be used; the text says why and what to do."""


def load(keys: Path, key: PublicKey) -> list[KeySuccession]:
    """Return the statements in the folder `keys`, the oldest first; none if the node has had one key only. Raise
    `SuccessionError` if they do not lead to `key`."""
    found = read(keys)
    if not is_chain(found, key):
        raise SuccessionError(f"{keys / FILE_NAME} {_OF_OTHERS}")
    return found


def read(keys: Path) -> list[KeySuccession]:
    """Return the statements in the folder, whatever key they lead to. Raise `SuccessionError` if it holds others."""
    path = keys / FILE_NAME
    try:
        text = private_file.read(path, KEPT_MAX * (2 * SUCCESSION_BYTES_MAX + 1))
        return [decode_succession(bytes.fromhex(line)) for line in text.decode("ascii").split()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SuccessionError(f"{path} cannot be read: {error.strerror}; see that this user may read it") from None
    except private_file.Exposed as exposed:
        raise SuccessionError(
            f"{path} can be read by others (mode {exposed.mode:03o}); run: chmod 600 {path}"
        ) from None
    except ValueError:
        raise SuccessionError(f"{path} {_OF_OTHERS}") from None


def first_key(keys: Path, key: PublicKey) -> PublicKey:
    """Return the first key of the node that has `key` now: its log is called by it. Raise `SuccessionError`."""
    chain = load(keys, key)
    return chain[0].old if chain else key


def save(keys: Path, chain: list[KeySuccession]) -> None:
    """Write the statements, the oldest first. `OSError` passes."""
    lines = [f"{line_of(one)}\n" for one in chain[-KEPT_MAX:]]
    private_file.replace(keys / FILE_NAME, "".join(lines).encode())


def former_keys(keys: Path) -> list[bytes]:
    """Return the keys that the node of this folder had before, the oldest first; none if that cannot be read."""
    try:
        return [bytes(one.old) for one in read(keys)]
    except SuccessionError:
        return []


def line_of(one: KeySuccession) -> str:
    """Return a statement as its line has it, without the newline."""
    return encode_succession(one).hex()


_OF_OTHERS = (
    "should hold the statements by which this node's key has followed its earlier ones, and does not: neighbours that "
    "know an earlier key will not know this node; restore the file, or move it away and have this node added anew there"
)
