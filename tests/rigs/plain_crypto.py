"""A second implementation of CBOR, BLAKE3, XChaCha20 and bech32m by their papers, without any of the router's code.

It is slow and simple. Ed25519, X25519 and ChaCha20-Poly1305 are OpenSSL's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

MASK = 0xFFFFFFFF


def public_of(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, message: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)


def x25519_public_of(seed: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def x25519(seed: bytes, public: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(seed).exchange(X25519PublicKey.from_public_bytes(public))


# -- CBOR (RFC 8949, section 4.2.1) ----------------------------------------------------------------------


def cbor(value: object) -> bytes:
    """Encode deterministic CBOR: shortest heads, map keys in the order of their encoded bytes."""
    if value is None or isinstance(value, bool):
        return {False: b"\xf4", True: b"\xf5", None: b"\xf6"}[value]
    if isinstance(value, int):
        return _head(0, value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(cbor, value))
    assert isinstance(value, dict)
    rows = sorted((cbor(key), cbor(one)) for key, one in value.items())
    return _head(5, len(rows)) + b"".join(key + one for key, one in rows)


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for at, (code, least) in enumerate((("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))):
        if number < least:
            return bytes([major << 5 | 24 + at]) + struct.pack(f">{code}", number)
    raise ValueError(number)


# -- BLAKE3 (the paper's section 2), unkeyed, 32 bytes ---------------------------------------------------

_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_START, _END, _PARENT, _ROOT = 1, 2, 4, 8
_BLOCK, _CHUNK = 64, 1024

Node = tuple[tuple[int, ...], tuple[int, ...], int, int, int]
"""Chaining value, words, counter, length and flags of the last compression of a chunk or a parent."""


def blake3(data: bytes) -> bytes:
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [b""]
    value, words, _, size, flags = _joined([_chunk(chunk, at) for at, chunk in enumerate(chunks)])
    return struct.pack("<8I", *_compress(value, words, 0, size, flags | _ROOT)[:8])


def _joined(nodes: list[Node]) -> Node:
    """Join nodes into a tree whose left part is the largest power of two that leaves at least one to the right."""
    if len(nodes) == 1:
        return nodes[0]
    left = 1 << ((len(nodes) - 1).bit_length() - 1)
    words = (*_compress(*_joined(nodes[:left]))[:8], *_compress(*_joined(nodes[left:]))[:8])
    return _IV, words, 0, _BLOCK, _PARENT


def _chunk(chunk: bytes, counter: int) -> Node:
    value: tuple[int, ...] = _IV
    blocks = [chunk[at : at + _BLOCK] for at in range(0, len(chunk), _BLOCK)] or [b""]
    for at, block in enumerate(blocks):
        words = struct.unpack("<16I", block.ljust(_BLOCK, b"\0"))
        flags = (_START if at == 0 else 0) | (_END if at == len(blocks) - 1 else 0)
        last = value, words, counter, len(block), flags
        value = _compress(*last)[:8]
    return last


def _compress(value: tuple[int, ...], words: tuple[int, ...], counter: int, size: int, flags: int) -> tuple[int, ...]:
    state = [*value, *_IV[:4], counter & MASK, counter >> 32, size, flags]
    for _ in range(7):
        pairs = iter(words)
        for row, x, y in zip((*_COLUMNS, *_DIAGONALS), pairs, pairs, strict=True):
            _mix(state, *row, x, y)
        words = tuple(words[at] for at in _PERMUTATION)
    low = tuple(state[at] ^ state[at + 8] for at in range(8))
    return low + tuple(state[at + 8] ^ value[at] for at in range(8))


def _mix(s: list[int], a: int, b: int, c: int, d: int, x: int, y: int) -> None:
    s[a] = s[a] + s[b] + x & MASK
    s[d] = _right(s[d] ^ s[a], 16)
    s[c] = s[c] + s[d] & MASK
    s[b] = _right(s[b] ^ s[c], 12)
    s[a] = s[a] + s[b] + y & MASK
    s[d] = _right(s[d] ^ s[a], 8)
    s[c] = s[c] + s[d] & MASK
    s[b] = _right(s[b] ^ s[c], 7)


def _right(word: int, by: int) -> int:
    return word >> by | word << 32 - by & MASK


# -- XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha) --------------------------------------------------------


def xchacha20_poly1305(key: bytes, nonce: bytes, plain: bytes, bound_to: bytes) -> bytes:
    return ChaCha20Poly1305(_hchacha20(key, nonce[:16])).encrypt(bytes(4) + nonce[16:], plain, bound_to)


def _hchacha20(key: bytes, nonce: bytes) -> bytes:
    s = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), *struct.unpack("<4I", nonce)]
    for _ in range(10):
        for a, b, c, d in (*_COLUMNS, *_DIAGONALS):
            for first, second in ((16, 12), (8, 7)):
                s[a] = s[a] + s[b] & MASK
                s[d] = _right(s[d] ^ s[a], 32 - first)
                s[c] = s[c] + s[d] & MASK
                s[b] = _right(s[b] ^ s[c], 32 - second)
    return struct.pack("<8I", *s[:4], *s[12:])


# -- bech32m (BIP 350), of any length --------------------------------------------------------------------

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def bech32m(prefix: str, raw: bytes) -> str:
    bits = "".join(f"{byte:08b}" for byte in raw)
    fives = [int(bits[at : at + 5].ljust(5, "0"), 2) for at in range(0, len(bits), 5)]
    head = [*(ord(one) >> 5 for one in prefix), 0, *(ord(one) & 31 for one in prefix)]
    check = _polymod([*head, *fives, *[0] * 6]) ^ 0x2BC830A3
    fives += [check >> 5 * (5 - at) & 31 for at in range(6)]
    return f"{prefix}1{''.join(_LETTERS[one] for one in fives)}"


def _polymod(values: Iterable[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for at, generator in enumerate(_GENERATORS):
            check ^= generator if top >> at & 1 else 0
    return check
