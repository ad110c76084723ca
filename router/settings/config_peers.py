"""The `[[peers]]` and `[[local]]` blocks of the configuration: their shape, their rules, and changing them.

A change touches only the lines it must: comments, order and everything else in the file stay as they are.
"""

from __future__ import annotations

import calendar
import re
import time
import tomllib
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict, fields

from router.core.neighbours.directory import OF_CLIENTS
from router.core.wire.crypto import PublicKey
from router.core.wire.text import key_text, parse_key
from router.settings.config_text import ConfigError, Problem, toml_value
from router.settings.keyring import NAME_FORM, NAME_PATTERN
from router.settings.toml_lines import Block, Statement, blocks, lines

Grant = Literal["join", "store", "relay", "why"]

URL_FORM = "tls://HOST:PORT, wss://HOST/PATH or unix:PATH"
Url = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9+.-]*:[^\s\x00-\x1f\x7f]+$", extra={"form": URL_FORM})]
Name = Annotated[str, Meta(pattern=rf"^(?:{NAME_PATTERN})?\Z", extra={"form": NAME_FORM})]
Until = Annotated[
    str, Meta(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z)?\Z", extra={"form": "a time like 2026-12-31T18:00Z"})
]
Address = Annotated[PublicKey, Meta(description="The public key, as hex or as addr1… text.")]


def about(sentence: str) -> Meta:
    return Meta(description=sentence)


# fmt: off
class Local(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A local service or app whose key is known before it connects."""

    address: Address
    name: Annotated[Name, about("Its name on this node.")] = ""
    public: Annotated[bool, about("Whether strangers may send to it.")] = False


class Peer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A neighbour: another router, or a client with rights here. `router peer …` edits these blocks."""

    address: Address
    name: Annotated[Name, about("Its name on this node.")] = ""
    urls: Annotated[tuple[Url, ...], about(
        "The URLs to dial: in order, 0.25 s apart, the one that answered last first. Empty: it is never dialled and "
        "must connect here.")] = ()
    grant: Annotated[tuple[Grant, ...], about(
        "Its rights here: join groups; store messages for it while it is away; relay messages to others through this "
        "node; ask why, that is what became of the messages it handed over.")] = ()
    uplink: Annotated[bool, about("Whether this node joins its groups there and publishes through it.")] = False
    blocked: Annotated[bool, about("Whether it is shut out; while it is, its other settings have no effect.")] = False
    until: Annotated[Until, about(
        "When it stops being a neighbour, in UTC: 2026-12-31T18:00Z. Then it is a stranger. Empty: never.")] = ""
    learned: Annotated[Literal["config", "invited"], about(
        'How it became a neighbour: "invited" stands in the blocks of guests and of whom this node is a guest, by '
        "invitation. It is shown, and has no effect.")] = "config"

    @property
    def until_s(self) -> int:
        """The Unix second of `until`; 0: none."""
        return time_of(self.until)

    @property
    def is_router(self) -> bool:
        """Whether it is certainly another router: it is dialled, or has no rights of a client."""
        return bool(self.urls) or self.uplink or not set(self.grant) & OF_CLIENTS
# fmt: on


_DEFAULT = {one.name: one.default for one in fields(Peer) if not one.required}


class AddPeer(Struct, frozen=True):
    """Add a block at the end of the file."""

    peer: Peer


class UpdatePeer(Struct, frozen=True):
    """Set these values in the block of that address; lines that already have them are not touched."""

    peer: Peer


class RemovePeer(Struct, frozen=True):
    """Remove the block of that address, with the comments inside it."""

    address: PublicKey


class BlockPeer(Struct, frozen=True):
    """Set `blocked = true`, in a new block if the address has none."""

    address: PublicKey


PeerChange = AddPeer | UpdatePeer | RemovePeer | BlockPeer


def read_address(text: str) -> PublicKey:
    """Return the key in hex or addr1… text (R-B2); raise `ValueError` with a sentence otherwise."""
    return parse_key(text, "addr")


def write_address(address: PublicKey) -> str:
    return key_text("addr", address)


def time_of(text: str) -> int:
    """Return the Unix second of a time like 2026-12-31T18:00Z, 0 of an empty text; raise `ValueError` otherwise."""
    return calendar.timegm(datetime.fromisoformat(text).utctimetuple()) if text else 0


def time_text(at_s: int) -> str:
    """Return the text of a Unix second, of 0 an empty one."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s)) if at_s else ""


def changed(text: str, change: PeerChange) -> str:
    """Return the text of a valid configuration after the change; raise `ConfigError` if the change does not fit it."""
    if "\r\n" in text:
        return changed(text.replace("\r\n", "\n"), change).replace("\n", "\r\n")
    found = _by_address(text)
    match change:
        case AddPeer(peer):
            if peer.address in found:
                place = f"line {found[peer.address].first + 1}"
                raise _unfit(f"{write_address(peer.address)} is a peer already, at {place}; change that")
            return _added(text, peer)
        case UpdatePeer(peer):
            return _updated(text, _known(found, peer.address), peer)
        case RemovePeer(address):
            return _removed(text, _known(found, address))
        case BlockPeer(address):
            if address not in found:
                return _added(text, Peer(address=address, blocked=True))
            return _rewritten(text, found[address], {"blocked": True})


def broken_rules(local: tuple[Local, ...], peers: tuple[Peer, ...]) -> Iterator[Problem]:
    """Yield a problem for each address or name that stands twice, and each uplink that cannot be dialled."""
    addresses: dict[PublicKey, str] = {}
    names: dict[str, str] = {}
    every = [("local", at, one.address, one.name) for at, one in enumerate(local)]
    every += [("peers", at, one.address, one.name) for at, one in enumerate(peers)]
    for section, at, address, name in every:
        here = f"{section}[{at}]"
        if addresses.setdefault(address, here) != here:
            text = f"{here}.address {write_address(address)} stands in {addresses[address]} already; keep one"
            yield Problem((section, at, "address"), text)
        if name and names.setdefault(name, here) != here:
            text = f'{here}.name "{name}" is the name of {names[name]} already; choose another'
            yield Problem((section, at, "name"), text)
    for at, one in enumerate(peers):
        try:
            time_of(one.until)
        except ValueError as error:
            yield Problem(("peers", at, "until"), f'peers[{at}].until is "{one.until}", which is no time: {error}')
        if one.uplink and not one.urls and not one.blocked:
            text = f"peers[{at}] is an uplink but has no urls; add where to dial it"
            yield Problem(("peers", at, "uplink"), text)


def _by_address(text: str) -> dict[PublicKey, Block]:
    found = {}
    for block in blocks(text, "peers"):
        said = {key: value for one in block.keys for key, value in one.value.items()}
        found[read_address(said["address"])] = block
    if len(found) != len(tomllib.loads(text).get("peers", [])):
        raise _unfit("peers is written as a list in [ ]; write each as a [[peers]] block to have it changed")
    return found


def _unfit(said: str) -> ConfigError:
    return ConfigError((said,))


def _known(found: dict[PublicKey, Block], address: PublicKey) -> Block:
    if address not in found:
        raise _unfit(
            f"{write_address(address)} is no peer in this file; `router peer list` shows them. A guest that could not "
            "be written into it yet is removed while the node runs"
        )
    return found[address]


def _line(name: str, value: object) -> str:
    return f"{name} = {toml_value(write_address(value) if isinstance(value, PublicKey) else value)}"


def _added(text: str, peer: Peer) -> str:
    said = [_line(key, value) for key, value in asdict(peer).items() if value != _DEFAULT.get(key)]
    end = "" if not text or text.endswith("\n") else "\n"
    return "\n".join((text + end, "[[peers]]", *said, ""))


def _updated(text: str, block: Block, peer: Peer) -> str:
    given = {key for one in block.keys for key in one.value}
    wanted = {key: value for key, value in asdict(peer).items() if key in given or value != _DEFAULT.get(key)}
    return _rewritten(text, block, {key: value for key, value in wanted.items() if key != "address"})


def _removed(text: str, block: Block) -> str:
    rows = lines(text)
    blank_before = block.first > 0 and not rows[block.first - 1].strip()
    return "".join(rows[: block.first - blank_before] + rows[block.stop :])


def _rewritten(text: str, block: Block, wanted: dict[str, object]) -> str:
    rows = lines(text)
    stands = {key: one for one in block.keys for key in one.value}
    new = [_line(key, value) + "\n" for key, value in wanted.items() if key not in stands]
    if new and not rows[block.stop - 1].endswith("\n"):
        rows[block.stop - 1] += "\n"
    rows[block.stop : block.stop] = new
    for one in sorted((stands[key] for key in wanted if key in stands), reverse=True):
        ((key, old),) = one.value.items()
        value = wanted[key]
        if (tuple(old) if isinstance(old, list) else old) != value:
            rows[one.first : one.stop] = [_replaced(rows[one.first : one.stop], one, _line(key, value))]
    return "".join(rows)


def _replaced(rows: list[str], statement: Statement, line: str) -> str:
    """Return the new line, with the indent of the old one and the comment behind it."""
    indent = re.match(r"\s*", rows[0])
    end = "\n" if rows[-1].endswith("\n") else ""
    return (indent[0] if indent else "") + line + _comment_behind("".join(rows).rstrip("\n"), statement) + end


def _comment_behind(text: str, statement: Statement) -> str:
    """Return the comment after the value of a one-line statement: it begins at the first # whose removal keeps the
    value."""
    if "\n" in text:
        return ""
    for found in re.finditer(r"\s*#", text):
        try:
            if tomllib.loads(text[: found.start()]) == statement.value:
                return text[found.start() :]
        except tomllib.TOMLDecodeError:
            continue
    return ""
