"""A ternary query over the first 16 bytes of a message's data: a value, and a mask of the bits that count.

A byte beyond the end of shorter data never matches under a mask, whatever the value says; where the mask is 0, any data
matches.
"""

from __future__ import annotations

from msgspec import Struct

from router.core.wire.codec import Malformed

KEY_BYTES = 16


class Pattern(Struct, frozen=True):
    """A query's value and mask. Bits of the value outside the mask are 0, so queries for the same data are equal."""

    value: bytes
    mask: bytes

    def __post_init__(self) -> None:
        for name, part in (("value", self.value), ("mask", self.mask)):
            if len(part) != KEY_BYTES:
                raise Malformed(f"the {name} of a query has {len(part)} bytes instead of {KEY_BYTES}")
        if any(value & ~mask for value, mask in zip(self.value, self.mask, strict=True)):
            raise Malformed("the value of a query has bits outside its mask")

    @classmethod
    def of(cls, value: bytes, mask: bytes) -> Pattern:
        """Return the pattern of a value and a mask of equal length, at most 16 bytes; bytes beyond them may be
        anything."""
        if len(value) != len(mask) or len(mask) > KEY_BYTES:
            said = f"the value has {len(value)} bytes and the mask {len(mask)}"
            raise Malformed(f"{said}; give both the same length, at most {KEY_BYTES} bytes")
        kept = bytes(one & other for one, other in zip(value, mask, strict=True))
        return cls(kept.ljust(KEY_BYTES, b"\0"), mask.ljust(KEY_BYTES, b"\0"))

    @classmethod
    def prefix(cls, prefix: bytes) -> Pattern:
        """Return the pattern of data that begins with these bytes, at most 16; an empty prefix matches any data."""
        return cls.of(prefix, b"\xff" * len(prefix))

    @property
    def bytes_needed(self) -> int:
        """Return the least length of data that can match: no byte under the mask may lie beyond its end."""
        return len(self.mask.rstrip(b"\0"))

    @property
    def prefix_bytes(self) -> int:
        """Return the number of leading bytes that are compared whole."""
        return len(self.mask) - len(self.mask.lstrip(b"\xff"))

    def matches(self, data: bytes) -> bool:
        """Whether the data matches."""
        if len(data) < self.bytes_needed:
            return False
        return all(byte & mask == value for byte, mask, value in zip(data, self.mask, self.value, strict=False))

    def wire_prefix(self) -> bytes:
        """Return the longest prefix of the pattern that a node of the reference can search for: 16, 8, 4, 2 or no
        bytes."""
        return self.value[: next((size for size in (16, 8, 4, 2) if size <= self.prefix_bytes), 0)]
