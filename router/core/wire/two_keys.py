"""What a statement that one key takes the place of another is made of: both keys, its time, and a signature of each."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct

from .codec import encode
from .crypto import PublicKey, Signature, SigningKey, verify


class TwoKeys(Struct, frozen=True):
    """From the Unix second `from_s` on, `new` has the place of `old`; until `until_s` it has what comes to the old
    address as well. `LABEL`: what both sign before it, so that neither signature counts for anything else; `WORD`: the
    statement's name."""

    LABEL: ClassVar[bytes]
    WORD: ClassVar[str]

    old: PublicKey
    new: PublicKey
    from_s: int
    until_s: int
    old_signature: Signature
    new_signature: Signature

    def __repr__(self) -> str:
        keys = f"{self.old.hex()[:12]} by {self.new.hex()[:12]}"
        return f"<{self.WORD} of {keys} from {self.from_s} until {self.until_s}>"

    @classmethod
    def signed(cls, old: SigningKey, new: SigningKey, from_s: int, until_s: int) -> Self:
        """Return the statement, signed by both keys."""
        text = cls._text(old.public, new.public, from_s, until_s)
        return cls(old.public, new.public, from_s, until_s, old.sign(text), new.sign(text))

    def verify(self) -> bool:
        """Whether both keys have signed it."""
        text = self._text(self.old, self.new, self.from_s, self.until_s)
        return verify(self.old, text, self.old_signature) and verify(self.new, text, self.new_signature)

    def items(self) -> list[object]:
        """Return the values that make its encoding."""
        return [self.old, self.new, self.from_s, self.until_s, self.old_signature, self.new_signature]

    @classmethod
    def _text(cls, old: PublicKey, new: PublicKey, from_s: int, until_s: int) -> bytes:
        return cls.LABEL + encode([old, new, from_s, until_s])
