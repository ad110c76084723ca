"""Successions: statements that another key takes the place of a node's key, signed by both (cddl/succession.cddl).

A node shows its neighbours the statements of its last keys in the hello of each link, the oldest first; the last one's
new key is the one that the link proves. What a valid statement is worth when there are several for one key is decided
in `core/neighbours/renewals.py`, and which of them a router hears at all in `core/control/succeeding.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from . import shape
from .codec import Malformed, TooLarge, decode, encode
from .crypto import KEY_BYTES, SIGNATURE_BYTES, PublicKey, Signature, SigningKey
from .lifetime import UINT32_MAX
from .two_keys import TwoKeys

ANSWERS_S = 30 * 86_400
"""How long, at most, what comes to the old address is still taken as said to the new one."""
CHAIN_MAX = 5
"""The most statements in a hello: a neighbour that was away during more renewals than this must be told by hand."""
FOLLOWED_MAX = 64
"""How often a node may be given another key in all: each statement is kept for good, by the node and its neighbours."""
SUCCESSION_BYTES_MAX = 1 + 2 * (2 + KEY_BYTES) + 2 * 5 + 2 * (2 + SIGNATURE_BYTES)

_ITEMS_MAX = 7


class KeySuccession(TwoKeys, frozen=True):
    """From the Unix second `from_s` on, `new` is the key of the node that had `old`; until `until_s` it also answers to
    the old address."""

    LABEL = b"upsycle succession 1"
    WORD = "succession"


def make_succession(old: SigningKey, new: SigningKey, from_s: int, until_s: int) -> KeySuccession:
    """Return the statement, signed by both keys; raise ValueError if nobody would accept it."""
    made = KeySuccession.signed(old, new, from_s, until_s)
    decode_succession(encode_succession(made))
    return made


def encode_succession(value: KeySuccession) -> bytes:
    return encode(value.items())


def decode_succession(data: bytes) -> KeySuccession:
    """Return the statement in `data`; raise `Malformed` if it is none. Its signatures are *not* checked."""
    if len(data) > SUCCESSION_BYTES_MAX:
        raise TooLarge(f"a succession of {len(data)} bytes; the limit is {SUCCESSION_BYTES_MAX}")
    old, new, *rest = shape.array(decode(data, _ITEMS_MAX), "a succession", 6, 6)
    return _succession(old, shape.checked_key(new, "the new key"), *rest)


class Former(Struct, frozen=True):
    """A statement as a hello carries it: all of it but the new key, which is the old one of the next statement, or the
    key that the link proves."""

    old: PublicKey
    from_s: int
    until_s: int
    old_signature: Signature
    new_signature: Signature

    def items(self) -> list[Any]:
        """Return the values for a hello."""
        return [self.old, self.from_s, self.until_s, self.old_signature, self.new_signature]


def formers(chain: Iterable[KeySuccession]) -> tuple[Former, ...]:
    """Return the last `CHAIN_MAX` statements of a node, the oldest first, as its hello carries them."""
    newest = [*chain][-CHAIN_MAX:]
    return tuple(Former(one.old, one.from_s, one.until_s, one.old_signature, one.new_signature) for one in newest)


def read_formers(value: Any) -> tuple[Former, ...]:
    """Return the statements in a hello; raise `Malformed` if they cannot be any. Signatures are *not* checked."""
    found = []
    for one in shape.array(value, "was", 1, CHAIN_MAX):
        old, *rest = shape.array(one, "a former key", 5, 5)
        said = _succession(old, None, *rest)
        found.append(Former(said.old, said.from_s, said.until_s, said.old_signature, said.new_signature))
    if len({one.old for one in found}) < len(found):
        raise Malformed("a former key stands twice in one chain")
    return tuple(found)


def chain_of(was: Sequence[Former], key: PublicKey) -> tuple[KeySuccession, ...]:
    """Return the statements of a hello whose sender has proven `key`, the oldest first; none if `key` is also a former
    key in it, which is a circle. Signatures are *not* checked."""
    if any(one.old == key for one in was):
        return ()
    following = (*(one.old for one in was[1:]), key)[: len(was)]
    return tuple(
        KeySuccession(one.old, new, one.from_s, one.until_s, one.old_signature, one.new_signature)
        for one, new in zip(was, following, strict=True)
    )


def leads(was: Sequence[Former], old: bytes, key: PublicKey) -> bool:
    """Whether the statements of a hello lead from `old` to the proven `key`, each signed by both of its keys."""
    chain = chain_of(was, key)
    at = next((at for at, one in enumerate(chain) if one.old == old), None)
    return at is not None and all(one.verify() for one in chain[at:])


def is_chain(statements: Sequence[KeySuccession], key: bytes) -> bool:
    """Whether the statements are a node's own, the oldest first: each signed by both keys, the last one for `key`, and
    no key in them comes back."""
    if len({bytes(key), *(bytes(one.old) for one in statements)}) <= len(statements):
        return False
    follow = all(one.new == two.old for one, two in pairwise(statements))
    return follow and (not statements or statements[-1].new == key) and all(one.verify() for one in statements)


def _succession(
    old: Any, new: PublicKey | None, from_s: Any, until_s: Any, old_signature: Any, new_signature: Any
) -> KeySuccession:
    """Return the statement of these values; without `new`, the old key stands in its place."""
    was = shape.checked_key(old, "the old key")
    found = KeySuccession(
        was,
        new or was,
        shape.uint(from_s, "from", UINT32_MAX),
        shape.uint(until_s, "until", UINT32_MAX),
        shape.signature(old_signature, "the old key's signature"),
        shape.signature(new_signature, "the new key's signature"),
    )
    if new == was:
        raise Malformed("a key cannot take its own place")
    if not 0 < found.until_s - found.from_s <= ANSWERS_S:
        said = f"the old address would be answered for {found.until_s - found.from_s} s"
        raise Malformed(f"{said}; 1 to {ANSWERS_S} are allowed")
    return found
