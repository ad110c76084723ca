"""A check of a node: the data to send, the packets that must come back, and how they are judged.

A packet is described in words, such as `capdqreply ids 2 of 2: A B cookie 0005ffff`, with the names that the check
gives to messages and ids. Packets that a node sends for itself are left out, such as `ping`, or `capdinv` about
messages that are not the check's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from router.core.wire.codec import Malformed
from services.capd.core.message import CapdMessage

from .commands import INV_TYPE, BadLengthReply, GetMsg, IdsReply, Inv, MessagesReply, Msg, PoolLines
from .envelope import Packet
from .greeting import Version, has_pool, read_extversion
from .own_commands import HeldIds, RescindSecrets
from .packets import PAYLOADS, packet_of, read_packet

CLOSED, OPEN = "closed", "open"
CONNECTED, GREETED = "connected", "greeted"
SILENT = "nothing more"
NOT_AS_WRITTEN = " (not as a Nexa node writes it)"
_LEFT_OUT = ("ping", "capdgetinfo", "capdgetheld", "capdq", "capdmaskq", "capdremove")


class Check(Struct, frozen=True):
    """A check: `data` is sent, then a ping, and each of `expected` must come before its answer, in that order; only
    announcements may come later. Each expectation is a choice of descriptions.

    `names`: the names of messages, by their ids. `is_own`: whether the command is one of ours, which a node may ignore.
    `is_harmful`: whether it costs points, or, with `is_banning`, a ban of this machine, also on loopback."""

    name: str
    begin: str
    sent: str
    data: bytes
    expected: tuple[tuple[str, ...], ...] = ()
    then: str = OPEN
    names: Mapping[bytes, str] = field(default_factory=dict)
    messages: Mapping[bytes, CapdMessage] = field(default_factory=dict)
    is_own: bool = False
    is_harmful: bool = False
    is_banning: bool = False

    @property
    def expectation(self) -> str:
        """Describe the expectation."""
        return in_words([*(" or ".join(one) for one in self.expected), *([CLOSED] if self.then == CLOSED else [])])

    @property
    def answers(self) -> set[str]:
        """Return the commands that are expected, without announcements."""
        return {choice.split()[0] for one in self.expected for choice in one if not _is_announced(choice)}

    def is_met(self, got: Sequence[str]) -> bool:
        """Whether these descriptions are as expected; announcements may come at any time."""
        wanted = [*self.expected, *([(CLOSED,)] if self.then == CLOSED else [])]
        found = sorted(got, key=_is_announced)
        wanted.sort(key=lambda one: _is_announced(one[0]))
        return len(found) == len(wanted) and all(one in choice for one, choice in zip(found, wanted, strict=True))


def in_words(parts: Sequence[str]) -> str:
    """Join descriptions into one text."""
    return ", ".join(parts) or OPEN


def _is_announced(description: str) -> bool:
    return description.startswith("capdinv ")


def described(packet: Packet, check: Check) -> list[str]:
    """Describe a node's packet, an inventory id by id; return nothing for a packet that does not belong to the
    check."""
    if packet.command == "capdinv":
        return list(_announced(packet, check))
    found = _described(packet, check)
    return [] if found is None else [found]


def _announced(packet: Packet, check: Check) -> Iterator[str]:
    try:
        inventory = read_packet(packet)
    except Malformed as error:
        yield f"capdinv with wrong bytes: {error}"
        return
    assert isinstance(inventory, Inv)
    for own_id in inventory.ids:
        if own_id in check.names:
            yield f"capdinv {check.names[own_id]}" + (
                "" if inventory.type == INV_TYPE else f" of type {inventory.type}"
            )


def _described(packet: Packet, check: Check) -> str | None:
    name = packet.command
    if name == "reject":
        return _rejected(packet)
    if name not in PAYLOADS or name in _LEFT_OUT:
        return None
    try:
        message = read_packet(packet)
    except Malformed as error:
        return f"{name} with wrong bytes: {error}"
    words: str | None = name
    match message:
        case Version():
            words = name if message.knows_extversion else f"{name} without the bit of extversion"
            return words  # its bytes are the node's own
        case PoolLines(local, relay, highest):
            is_right = local >= 1.0 and relay >= 2.0 and highest >= 2.0
            words = name if is_right else f"{name} {local:g} {relay:g} {highest:g}"
        case GetMsg(_, ids):
            words = _of_ours(name, ids, check)
        case HeldIds(_, ids):
            words = _of_ours(name, ids, check) or name
        case RescindSecrets():
            words = name
        case Msg(messages):
            words = f"{name}{_messages(messages, check)}" if messages else None
        case MessagesReply(cookie, total, messages):
            words = f"{name} {cookie} messages of {total}:{_messages(messages, check)}"
        case IdsReply(cookie, total, ids):
            words = f"{name} {cookie} ids of {total}:{_ids(ids, check)}"
        case BadLengthReply(cookie, length):
            words = f"{name} {cookie} bad length {length}"
    if name == "extversion":
        return name if has_pool(read_extversion(packet.payload)) else f"{name} without a pool"
    if words is None or message is None:
        return None
    if packet_of(message).payload != packet.payload:
        words += NOT_AS_WRITTEN
    has_cookie = name.startswith("capd") and packet.cookie != 0
    return f"{words} cookie {packet.cookie:08x}" if has_cookie and name != "capdgetmsg" else words


def _rejected(packet: Packet) -> str:
    """Describe a rejection by its command, code and cookie."""
    size = packet.payload[:1]
    end = 1 + (size[0] if size else 0)
    command, code = packet.payload[1:end].decode("latin-1"), packet.payload[end : end + 1]
    return f"reject {command} {code[0] if code else 'without a code'} cookie {packet.cookie:08x}"


def _of_ours(name: str, ids: Iterable[bytes], check: Check) -> str | None:
    """Describe the ids of a list that belong to the check; None if there are none."""
    found = [check.names[one] for one in ids if one in check.names]
    return f"{name} {' '.join(found)}" if found else None


def _ids(ids: Iterable[bytes], check: Check) -> str:
    return "".join(f" {check.names.get(one, 'another')}" for one in ids)


def _messages(messages: Iterable[CapdMessage], check: Check) -> str:
    words = ""
    for message in messages:
        own_id = message.own_id()
        name = check.names.get(own_id, "another")
        words += f" {name}" + ("" if check.messages.get(own_id, message) == message else " changed")
    return words
