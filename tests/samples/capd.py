"""CAPD messages with the least work for their priority, and a slow and simple pool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from msgspec.structs import replace

from services.capd import reasons
from services.capd.core.message import CapdMessage
from services.capd.core.priority import bits_for

BORN = 1_700_000_000


def solved(message: CapdMessage) -> CapdMessage:
    """Return the message with the first nonce of three bytes that meets its target."""
    stage1, target = message.stage1(), message.target
    for number in range(1 << 24):
        nonce = number.to_bytes(3, "little")
        if int.from_bytes(sha256(sha256(stage1 + nonce).digest()).digest(), "little") < target:
            return replace(message, nonce=nonce)
    raise AssertionError("no nonce of 3 bytes was found")


@cache  # Several modules offer the same.
def posted(
    data: bytes,
    priority: float = 2.5,
    create_time: int = BORN,
    *,
    expiration: int = 0xFFFF,
    secret_hash: bytes = bytes(20),
) -> CapdMessage:
    """Return a message of about this initial priority."""
    bits = bits_for(priority, len(data))
    return solved(CapdMessage(data, create_time, bits, b"", expiration, secret_hash))


@dataclass
class Held:
    """A message of the plain pool."""

    message: CapdMessage
    rescinded: bool = False


class PlainPool:
    """The strict profile, with a sort wherever an order is needed."""

    def __init__(self, bytes_max: int, of_one: int) -> None:
        self.bytes_max, self.of_one = bytes_max, of_one
        self.held: list[Held] = []

    @property
    def size(self) -> int:
        return sum(128 + len(one.message.data) for one in self.held)

    def _key(self, held: Held, now_s: int) -> tuple[float, ...]:
        own, number = held.message, self.held.index(held)
        if now_s - own.create_time >= 600:
            return 0, own.create_time, own.initial_priority, number
        return 1, own.priority(now_s), own.initial_priority, number

    def in_order(self, now_s: int) -> list[Held]:
        return sorted(self.held, key=lambda one: self._key(one, now_s))

    def lines(self, now_s: int) -> tuple[float, float, float]:
        priorities = sorted(one.message.priority(now_s) for one in self.held)
        highest = max([2.0, *priorities])
        if not self.held or self.size < self.bytes_max * 8 // 10:
            return 2.0, 1.0, highest
        weakest = self.in_order(now_s)[0].message.priority(now_s)
        return max(2.0, priorities[len(priorities) // 2]), max(1.0, weakest), highest

    def add(self, message: CapdMessage, now_s: int) -> str:
        """Return "taken", "known", or a reason's word."""
        own_id, priority = message.own_id(), message.priority(now_s)
        if any(one.message.own_id() == own_id for one in self.held):
            return "known"
        if len(message.data) > self.of_one:
            return reasons.TOO_LARGE.word
        if int.from_bytes(own_id, "little") >= message.target:
            return reasons.BAD_WORK.word
        if message.create_time > now_s:
            return reasons.FUTURE.word
        if priority < self.lines(now_s)[1]:
            return reasons.BELOW_LINE.word
        stays, freed = self.in_order(now_s), 0
        while stays and self.size - freed + 128 + len(message.data) > self.bytes_max:
            weakest = stays.pop(0)
            if now_s - weakest.message.create_time < 600 and weakest.message.priority(now_s) >= priority:
                return reasons.BELOW_LINE.word
            freed += 128 + len(weakest.message.data)
        self.held = [one for one in self.held if one in stays] + [Held(message)]
        return "taken"

    def rescind(self, rescind_hash: bytes) -> None:
        for one in self.held:
            one.rescinded |= one.message.rescind_hash == rescind_hash

    def found(self, value: bytes, mask: bytes, now_s: int) -> list[bytes]:
        """Return the ids of served messages that match, those first that were taken last."""
        return [
            one.message.own_id()
            for one in reversed(self.held)
            if not one.rescinded
            and not one.message.has_expired(now_s)
            and all(
                not bits or (at < len(one.message.data) and one.message.data[at] & bits == value[at] & bits)
                for at, bits in enumerate(mask)
            )
        ]
