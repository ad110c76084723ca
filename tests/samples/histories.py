"""Messages between members of a sealed group, as wires made by hand: the author, the causes and the number are
given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rigs.router_end import later

from router.core.wire.application import seal
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.message import message_id, seal_multicast
from samples.apps import FAMILY

ANN, BOB, EVE = (SigningKey(bytes((n,)) * 32) for n in b"abe")


@dataclass(repr=False)
class Talk:
    """Messages of the family, by name; the name is the body."""

    wires: dict[str, bytes] = field(default_factory=dict)
    seqs: dict[bytes, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<talk of {len(self.wires)} messages>"

    def say(
        self, name: str, *deps: str, by: SigningKey = ANN, seq: int | None = None, size: int = 0, until_min: int = 0
    ) -> bytes:
        """Return the message of that name, which follows those named `deps`. `size`: bytes of padding."""
        number = self.seqs.get(by.public, 0) if seq is None else seq
        self.seqs[by.public] = number + 1
        body = seal(
            by, FAMILY.group, number, [self.id(one) for one in deps], name.encode().ljust(size),
            content_key=FAMILY.content_key, nonce=len(self.wires).to_bytes(24, "big"),
        )  # fmt: skip
        assert FAMILY.seed is not None
        wire = seal_multicast(SigningKey(FAMILY.seed), body, ttl_s=60, expiry_min=until_min or later())
        self.wires[name] = wire
        return wire

    def id(self, name: str) -> MessageId:
        """Return the id of the message of that name, or an id that no message has."""
        return message_id(self.wires[name]) if name in self.wires else MessageId(name.encode().rjust(32, b"?"))

    def ids(self, names: Sequence[str]) -> tuple[MessageId, ...]:
        return tuple(map(self.id, names))
