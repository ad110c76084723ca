"""Nexa nodes with one deliberate fault each, and the check that must find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, NamedTuple

from msgspec.structs import replace

from rigs.nexa_node import Change, NexaNode
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa.envelope import Packet
from services.capd.core.nexa.greeting import COOKIES_KEY, encode_extversion
from services.capd.core.nexa.packets import packet_of, read_packet
from services.capd.core.pattern import KEY_BYTES, Pattern

_LINES, _BIG = Struct("<3d"), Struct(">3d")


class Faulty(NamedTuple):
    """A fault: how it is put into a node, the check that finds it, and whether it shows only by a missing answer."""

    put: Callable[[NexaNode], None]
    check: str
    is_silence: bool = False


def writes(command: str, change: Change) -> Callable[[NexaNode], None]:
    """Change the packets of a command that the node writes."""

    def put(node: NexaNode) -> None:
        node.writes = lambda packet: change(packet) if packet.command == command else (packet,)

    return put


def says(kind: type[Any], change: Callable[[Any], Any]) -> Callable[[NexaNode], None]:
    """Change the messages of this kind that the node sends."""

    def put(node: NexaNode) -> None:
        node.writes = lambda packet: _changed(packet, kind, change)

    return put


def hears(kind: type[Any], change: Callable[[Any], Any]) -> Callable[[NexaNode], None]:
    """Change the messages of this kind that the node receives; None drops one."""

    def put(node: NexaNode) -> None:
        node.reads = lambda packet: _changed(packet, kind, change)

    return put


def _changed(packet: Packet, kind: type[Any], change: Callable[[Any], Any]) -> Iterable[Packet]:
    message = read_packet(packet)
    if not isinstance(message, kind):
        return (packet,)
    other = change(message)
    return () if other is None else (packet_of(other, packet.cookie),)


def _drops(_: Any) -> Iterable[Packet]:
    return ()


def _ignores_further_greetings() -> Callable[[NexaNode], None]:
    """Drop greetings after two: the probe greets twice before the check's own, second greeting."""
    heard: list[Packet] = []

    def read(packet: Packet) -> Iterable[Packet]:
        heard.extend([packet] * (packet.command == "version"))
        return () if packet.command == "version" and len(heard) > 2 else (packet,)

    def put(node: NexaNode) -> None:
        node.reads = read

    return put


def _serves_what_was_rescinded(node: NexaNode) -> None:
    exchange = node.rules._neighbours._exchange
    exchange._serving._passing_on.may_go = lambda *_: True  # type: ignore[method-assign]


def _takes_all(node: NexaNode) -> None:
    pool = node.rules._holdings.pool
    pool._judged = lambda *_: None  # type: ignore[method-assign]


def _with_cookie(cookie: Callable[[int], int]) -> Change:
    return lambda packet: (packet._replace(cookie=cookie(packet.cookie)),)


def _asks_for_all(packet: Packet) -> Iterable[Packet]:
    inventory = read_packet(packet)
    assert isinstance(inventory, n.Inv)
    return packet, packet_of(n.GetMsg(2.0, inventory.ids))


FAULTS: dict[str, Faulty] = {
    "says no pool": Faulty(
        writes("extversion", lambda one: (one._replace(payload=encode_extversion({COOKIES_KEY: 1})),)), "greets"
    ),
    "the cookie stays": Faulty(writes("capdinfo", _with_cookie(lambda one: one & ~0xFFFF)), "info"),
    "takes what has no work": Faulty(_takes_all, "bad-work"),
    "does not end a standing query": Faulty(hears(n.Remove, lambda _: None), "standing"),
    "no verack": Faulty(writes("verack", _drops), "greets", True),
    "another pong": Faulty(writes("pong", lambda one: (one._replace(payload=b"\1" * 8),)), "ping", True),
    "no cookie where none was asked for": Faulty(writes("capdinfo", _with_cookie(lambda _: 0)), "info-without-cookie"),
    "doubles of the other order": Faulty(
        writes("capdinfo", lambda one: (one._replace(payload=_BIG.pack(*_LINES.unpack(one.payload))),)), "info"
    ),
    "a second greeting is ignored": Faulty(_ignores_further_greetings(), "version-again"),
    "announces nothing": Faulty(writes("capdinv", _drops), "brings", True),
    "announces twice": Faulty(writes("capdinv", lambda one: (one, one)), "twice"),
    "announces displayed ids": Faulty(
        says(n.Inv, lambda one: n.Inv(tuple(own_id[::-1] for own_id in one.ids))), "brings", True
    ),
    "announces under another type": Faulty(says(n.Inv, lambda one: n.Inv(one.ids, 73)), "brings"),
    "asks for what it has": Faulty(writes("capdinv", _asks_for_all), "asks-not-again"),
    "asks for any inventory": Faulty(hears(n.Inv, lambda one: n.Inv(one.ids)), "other-type"),
    "sends below the line": Faulty(hears(n.GetMsg, lambda one: n.GetMsg(0.0, one.ids)), "cut-off"),
    "changes a message": Faulty(
        says(n.Msg, lambda one: n.Msg(tuple(replace(each, nonce=each.nonce + b"\0") for each in one.messages))), "gets"
    ),
    "sends without the cookie": Faulty(writes("capdmsg", _with_cookie(lambda _: 0)), "gets-with-cookie"),
    "counts what it sends": Faulty(
        says(n.MessagesReply, lambda one: n.MessagesReply(one.cookie, len(one.messages), one.messages)), "query-page"
    ),
    "ids as messages": Faulty(hears(n.PrefixQuery, lambda one: replace(one, type=n.MESSAGES)), "query-ids"),
    "begins at the first": Faulty(hears(n.PrefixQuery, lambda one: replace(one, start=0)), "query-page"),
    "looks for 3 bytes": Faulty(hears(n.PrefixQuery, lambda one: replace(one, content=one.content[:2])), "query-3"),
    "looks for 17 bytes": Faulty(hears(n.PrefixQuery, lambda one: replace(one, content=one.content[:16])), "query-17"),
    "answers any type": Faulty(hears(n.PrefixQuery, lambda one: replace(one, type=n.MESSAGES)), "query-type"),
    "keeps no standing query": Faulty(
        hears(n.PrefixQuery, lambda one: replace(one, type=one.type & ~n.SUBSCRIBE)), "standing", True
    ),
    "more bytes than a reply has": Faulty(
        writes("capdqreply", lambda one: (one._replace(payload=one.payload + b"\0"),)), "query-16"
    ),
    "no rejection": Faulty(writes("reject", _drops), "cut-message", True),
    "a mask of whole bytes": Faulty(
        hears(own.MaskedQuery, lambda one: replace(one, pattern=Pattern(one.pattern.value, b"\xff" * KEY_BYTES))),
        "masked",
    ),
    "passes a secret on and does not honour it": Faulty(_serves_what_was_rescinded, "rescinds"),
}
