"""Tell a link that was cut short from one whose letters were changed, by the bytes that are left of it (pure).

A changed letter in a length makes the bytes end too early, just as a cut does. What is left of a cut link is the
beginning of a link all the same: its keys are known and in order, and each has a value of the size that this key has.
"""

from __future__ import annotations

BYTES_OF = {"grp": 32, "key": 32, "seed": 32, "id": 32, "inv": 16, "sig": 64}
"""The size of the byte strings in the maps of links, by their key."""
TEXT_BYTES_MAX = 253
ITEMS_MAX = 64
_KEYS = frozenset((*BYTES_OF, "name", "at", "addr", "exp", "gr", "svcs", "grps", "rev", "ttl"))
_UINT, _BYTES, _TEXT, _ARRAY, _MAP = 0, 2, 3, 4, 5


class _End(Exception):
    """The bytes end here."""


class _Other(Exception):
    """No link continues like this."""


def is_beginning(raw: bytes) -> bool:
    """Whether the bytes may be the beginning of a link of this version, as far as they go."""
    try:
        _Reader(raw).item("")
    except _End:
        return True
    except _Other:
        return False
    return True


class _Reader:
    """Reads CBOR items from the start of `raw` until these bytes end."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def __repr__(self) -> str:
        return f"<reader at byte {self._at} of {len(self._raw)}>"

    def item(self, of: str) -> None:
        """Read an item, the value of the key `of` or within it."""
        kind, argument = self._head()
        if kind in (_BYTES, _TEXT):
            self._content(kind, argument, of)
        elif kind == _ARRAY and argument <= ITEMS_MAX:
            for _ in range(argument):
                self.item(of)
        elif kind == _MAP and argument <= len(_KEYS):
            self._map(argument, of)
        elif kind != _UINT:
            raise _Other

    def _head(self) -> tuple[int, int]:
        first = self._take(1)[0]
        kind, argument = first >> 5, first & 31
        if argument > 27:
            raise _Other
        return kind, argument if argument < 24 else int.from_bytes(self._take(1 << argument - 24), "big")

    def _content(self, kind: int, size: int, of: str) -> None:
        if size > TEXT_BYTES_MAX or (kind == _BYTES and of in BYTES_OF and size != BYTES_OF[of]):
            raise _Other
        self._take(size)

    def _map(self, pairs: int, of: str) -> None:
        last = (0, "")
        for _ in range(pairs):
            key = str(self._key()) if of != "svcs" else self._number()
            if (len(key), key) <= last:
                raise _Other
            last = (len(key), key)
            self.item(key)

    def _key(self) -> str:
        kind, size = self._head()
        if kind != _TEXT or not any(len(one) == size for one in _KEYS):
            raise _Other
        found = self._take(size).decode("latin-1")
        if found not in _KEYS:
            raise _Other
        return found

    def _number(self) -> str:
        kind, argument = self._head()
        if kind != _UINT:
            raise _Other
        return str(argument)

    def _take(self, size: int) -> bytes:
        found = self._raw[self._at : self._at + size]
        self._at += size
        if len(found) < size:
            raise _End
        return found
