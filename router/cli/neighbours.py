"""`router peer`: edit the neighbours in `router.toml`, and have the running node read them again."""

from __future__ import annotations

import time
from typing import Any, cast

import click
from msgspec import Struct
from msgspec.structs import asdict, replace

from router.cli import given_link
from router.cli.ask import ask, ask_peers, reload_node
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.distinct_names import distinct
from router.cli.exits import Exit, Failure
from router.cli.output import address_text, columns, for_this_home, hint, note, offset_text, say, say_json
from router.cli.preflight import check_neighbour, was_own
from router.cli.spans import Seconds
from router.cli.waiting_messages import ended_text, tell_of_lost, tell_of_waiting
from router.client.errors import NodeUnavailable
from router.core.control.guests import EXPEL
from router.core.neighbours.directory import CONFIG, INVITED
from router.core.wire.crypto import PublicKey
from router.core.wire.invitation import Invitation
from router.core.wire.link_text import SCHEME
from router.core.wire.text import clean, key_text, span_text
from router.settings import config as configuration
from router.settings import received
from router.settings.config_peers import AddPeer, BlockPeer, Grant, Peer, PeerChange, RemovePeer, UpdatePeer
from router.settings.config_text import ConfigError
from router.settings.home import Home
from router.settings.names import Names, UnknownName
from router.transport import contract as transport

SAID_MAX = 3
"""How many neighbours with one name of their own an error names by their addresses."""
GRANTS = ("join", "store", "relay", "why")
ENDED = "ended"
WITH_END = (CONFIG, INVITED)
"""The ways of becoming a neighbour for which `until` is the operator's decision, not the end of a service's knowledge.
"""


@click.group(cls=CommandGroup)
def peer() -> None:
    """Add, change, list, remove, block and unblock neighbours."""


@peer.command("add", cls=Command)
@click.argument("address")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option("--name", help="Its name on this node.")
@click.option(
    "--grant",
    metavar="RIGHTS",
    multiple=True,
    help='All its rights here, comma-separated: join,store,relay,why; "" for none. They replace those it had.',
)
@click.option(
    "--revoke", metavar="RIGHTS", multiple=True, help="Rights to take away, comma-separated; its others stay."
)
@click.option(
    "--uplink/--no-uplink", default=None, help="Join this node's groups there and publish through it, or stop doing so."
)
@click.option("--yes", is_flag=True, help="Take an invitation without being asked.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="How long to wait until an invitation is answered; the node goes on asking after that.",
)
@json_option
def add(address: str, yes: bool, timeout_s: float, as_json: bool, **given: Any) -> None:
    """Add a neighbour, or change the entry of one.

    ADDRESS may also be an invitation, or the node's own link, which `router id --link` prints there: as text, in a
    file, as a picture of its QR code, or - for standard input. It brings the URLs. An invitation is shown first, and
    its group is kept here when its node has let us in. Exit code 4: refused; 5: not answered yet.

    A neighbour without URL is never dialled and must connect here. Each value given replaces the one in the entry; the
    others stay. When a right is taken away, everything that depends on it ends at once; if messages wait for the
    neighbour, the command says how many, and at a terminal asks first. A blocked neighbour is let in again, unless the
    command only takes something away.
    """
    edit = _Edit(**given)
    for url in edit.urls:
        transport.check(url)
    home = invocation().chosen_home
    home.check_format()
    config = configuration.load(home.config_path)[0]
    key = None if given_link.is_given(address) else _known(home, Names(home, config), address)
    if key is None:
        from router.cli import node_link

        found = node_link.given_peer(address)
        if isinstance(found, Invitation):
            _redeem(found, edit, yes, timeout_s, as_json)
            return
        key, given_urls = node_link.linked(found)
        if why := check_neighbour(home, key):
            raise Failure(Exit.USAGE, why)
        edit = replace(edit, urls=edit.urls or given_urls)
    known = next((one for one in config.peers if one.address == key), None)
    if known is None:
        _check_new(home, key, address, edit)
    wanted = edit.of(known or Peer(address=key))
    if wanted.uplink and not wanted.urls:
        raise click.UsageError("an uplink is dialled: give its URL, like tls://host:4101.")
    waited = tell_of_lost(home, known, wanted, _shown(wanted)) if known else 0
    running = _change(UpdatePeer(wanted) if known else AddPeer(wanted))
    said = f"is changed{ended_text(waited)}" if known else "is a neighbour now"
    _tell(f"{_shown(wanted)} {said}", wanted, running, as_json, waited)


class _Edit(Struct, frozen=True):
    """The values that a command gives for a neighbour's entry: those that are empty or None leave it as it is."""

    urls: tuple[str, ...]
    name: str | None
    grant: tuple[str, ...]
    revoke: tuple[str, ...]
    uplink: bool | None

    @property
    def only_takes(self) -> bool:
        """Whether the neighbour is only to have less than before."""
        return bool(self.revoke or self.uplink is False) and not (self.urls or self.name is not None or self.grant)

    def of(self, peer: Peer) -> Peer:
        """Return the entry after the edit; a blocked neighbour is let in again unless the edit only takes away."""
        granted = _grants(self.grant, "--grant") if self.grant else peer.grant
        taken = _grants(self.revoke, "--revoke")
        return replace(
            peer,
            name=peer.name if self.name is None else self.name,
            urls=self.urls or peer.urls,
            grant=tuple(one for one in granted if one not in taken),
            uplink=peer.uplink if self.uplink is None else self.uplink,
            blocked=peer.blocked and self.only_takes,
        )


def _redeem(invitation: Invitation, edit: _Edit, yes: bool, timeout_s: float, as_json: bool) -> None:
    from router.cli.redeem import Wishes, take

    if edit.revoke:
        raise click.UsageError("an invitation makes a neighbour, so there are no rights to --revoke yet.")
    rights = _grants(edit.grant, "--grant")
    take(invitation, Wishes(_change, edit.urls, edit.name, rights, edit.uplink, yes, timeout_s, as_json))


@peer.command("block", cls=Command)
@click.argument("address")
@json_option
def block(address: str, as_json: bool) -> None:
    """Shut a key out.

    Its connection is closed, and its subscriptions and its queue end at once; if messages wait in that, the command
    says how many, and at a terminal asks first. Its entry stays, and `router peer unblock ADDRESS` lets it in again.
    """
    home = invocation().chosen_home
    home.check_format()
    key = _neighbour(home, Names.of(home), address)
    waited = tell_of_waiting(home, [key], _shown(_peer(home, key)))
    received.withdraw(home, key)
    try:
        running = _change(BlockPeer(key))
    except ConfigError as error:
        if (ended := _expel(home, key)) is None:
            raise
        said = f"{_ended(key, ended)} until {home.config_path} can be written it is not blocked: {error}"
        raise Failure(Exit.FAILED, said) from None
    known = _peer(home, key)
    shown = _shown(known)
    _tell(f"{shown} is blocked{ended_text(waited)}", known, running, as_json, waited)
    note(f"`router peer unblock {shown}` lets it in again")


@peer.command("unblock", cls=Command)
@click.argument("address")
@json_option
def unblock(address: str, as_json: bool) -> None:
    """Let a blocked key in again, with the rights of its entry.

    What ended when it was blocked does not come back: it joins its groups again when it connects.
    """
    home = invocation().chosen_home
    home.check_format()
    key = _neighbour(home, Names.of(home), address)
    known = _peer(home, key)
    shown = _shown(known)
    if not known.blocked:
        raise Failure(Exit.USAGE, f"{shown} is not blocked; `router peer list` shows who is")
    known = replace(known, blocked=False)
    running = _change(UpdatePeer(known))
    _tell(f"{shown} is blocked no more", known, running, as_json)
    rights = f"it has the rights {', '.join(known.grant)}" if known.grant else "it has no rights"
    note(f"{rights}; `router peer add {shown} --grant RIGHTS` gives it others")


@peer.command("remove", cls=Command)
@click.argument("address")
@json_option
def remove(address: str, as_json: bool) -> None:
    """Remove a neighbour.

    Its entry is deleted, and its subscriptions, its queue and its invitations here end at once; so do the rights of a
    guest that could not be written into `router.toml` yet, if the node runs. If messages wait for it, the command says
    how many, and at a terminal asks first.
    """
    home = invocation().home_to_change
    key = _neighbour(home, Names.of(home), address)
    known = _peer(home, key)
    waited = tell_of_waiting(home, [key], _shown(known))
    received.withdraw(home, key)
    ended = _expel(home, key)
    if ended and not _is_in_file(home, key):
        _tell_removed(known, True, as_json, waited)
        return
    try:
        running = _change(RemovePeer(key))
    except ConfigError as error:
        if not ended:
            raise
        raise Failure(Exit.FAILED, f"{_ended(key, ended)} its entry stays: {error}") from None
    _tell_removed(known, running, as_json, waited)


def _tell_removed(known: Peer, running: bool, as_json: bool, waited: int) -> None:
    _tell(f"{_shown(known)} is no neighbour any more{ended_text(waited)}", known, running, as_json, waited)
    address = key_text("addr", known.address)
    said = "like any stranger it may still connect, and meet the readers of groups whose links it has"
    note(f"{said}; `router peer block {address}` shuts it out")


@peer.command("list", cls=Command)
@click.argument("names", metavar="[ADDRESS]...", nargs=-1)
@click.option(
    "--all", "is_whole", is_flag=True, help="Tell address, URLs and rights of all, as of those that are named."
)
@json_option
def list_peers(names: tuple[str, ...], is_whole: bool, as_json: bool) -> None:
    """List the neighbours: those in `router.toml`, and, if the node runs, those that it has learned otherwise. Of those
    that are named tell address, URLs and rights too, and of each what is wrong with it.

    A name in quotes is the neighbour's own word for itself, on the LAN, and no command knows it. LEARNED says how: by
    the configuration, an invitation, the LAN, or sampling. HEARD is the time since the last contact, CLOCK how far its
    clock is ahead of this one, GROUPS how many both are in.
    """
    live = _live()
    known = configuration.load(invocation().home.config_path)[0].peers
    rows = [_row(one, live) for one in known]
    if live is None:
        invited = received.problems(received.received(invocation().home), time.time())
        rows = [row | {"problem": invited.get(row["address"]) or None} for row in rows]
    written = {one["address"].hex() for one in rows}
    others = {one["address"]: one for one in (live or {}).values()}
    rows += [_learned(one) for key, one in others.items() if one.get("learned") and key not in written]
    if names:
        rows = _named(rows, names)
    if as_json:
        say_json(rows)
        return
    if live is None and rows:
        note("no node is running: their states are not known")
    rows.sort(key=lambda one: not one["problem"])
    _print_table(rows)
    is_whole |= bool(names)
    for one in rows:
        _print_details(one, is_whole)
    if rows and not is_whole:
        hint(for_this_home("`router peer list NAME` tells address, URLs and rights, `router peer list --all` of all"))


def _named(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of the neighbours of these names or addresses. Raise `Failure` if one is none."""
    home = invocation().chosen_home
    wanted = {name: bytes(_neighbour(home, Names.of(home), name)) for name in names}
    known = {bytes(one["address"]): one for one in rows}
    for name, key in wanted.items():
        if key not in known:
            raise Failure(Exit.USAGE, f"{name} is no neighbour; `router peer list` shows them")
    return [known[key] for key in dict.fromkeys(wanted.values())]


def _print_details(one: dict[str, Any], is_whole: bool) -> None:
    """Print a neighbour's address, URLs and rights, or only what is wrong with it, if anything is."""
    said = [*one["urls"], *(f"by its own word also at {url}" for url in one["said_urls"]), _rights(one)]
    lines = [line for line in (*(said if is_whole else ()), one["problem"]) if line]
    if lines or is_whole:
        name = f"{one['name']}: " if one["name"] else ""
        say(f"\n{name}{address_text(one['address'].hex())}")
    for line in lines:
        say(for_this_home(f"  {clean(line, 1000)}"))


def _print_table(rows: list[dict[str, Any]]) -> None:
    called = distinct([(one["name"], one["address"].hex()) for one in rows])
    table = [
        (
            name,
            one["state"],
            one["learned"],
            _heard(one),
            one["rtt_ms"],
            offset_text(one["offset_ms"]),
            one["shared"],
        )
        for name, one in zip(called, rows, strict=True)
    ]
    columns(
        ("NAME", "STATE", "LEARNED", "HEARD", "RTT MS", "CLOCK", "GROUPS"),
        table,
        "no neighbours yet; `router peer add` adds one",
    )


def _heard(row: dict[str, Any]) -> str:
    return "now" if row["state"] == "connected" else span_text(row["last_contact_s"])


def _rights(row: dict[str, Any]) -> str:
    rights = f"has the rights {', '.join(row['grant'])}" if row["grant"] else ""
    if row["state"] == "blocked":
        return "is shut out; `router peer unblock` lets it in again" + (
            f", with the rights {', '.join(row['grant'])}" if row["grant"] else ""
        )
    if row["until_s"] and row["learned"] in WITH_END:
        at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(row["until_s"]))
        if row["state"] == ENDED:
            return f"ended {at}: it is a stranger since; `router peer remove` forgets it" + (
                f", and it had the rights {', '.join(row['grant'])}" if row["grant"] else ""
            )
        rights = f"{rights or 'is a neighbour'} until {at}"
    return "; ".join(filter(None, ("uplink" if row["uplink"] else "", rights)))


def _live() -> dict[str, dict[str, Any]] | None:
    """Return the neighbours as the running node sees them, by each key that they have or had; None if none runs."""
    try:
        found = {one["address"]: one for one in ask_peers(invocation().home)}
    except NodeUnavailable:
        return None
    return {former: one for one in found.values() for former in one.get("formerly", ())} | found


def _row(known: Peer, live: dict[str, dict[str, Any]] | None) -> dict[str, Any]:
    """Return a row with the contract's JSON keys. `last_contact_s`: seconds ago; `learned`: how it became a neighbour;
    `until_s`: the Unix second at which that ends (0: never); `shared`: the number of groups that both have joined."""
    now = (live or {}).get(known.address.hex(), {})
    is_over = 0 < known.until_s <= time.time()
    state = ENDED if is_over else "unknown" if live is None else now.get("state", "away")
    return {
        "address": PublicKey(bytes.fromhex(now["address"])) if now else known.address,
        "name": known.name,
        "urls": known.urls,
        "said_urls": tuple(now.get("said_urls", ())),
        "learned": now.get("learned") or known.learned,
        **{key: now.get(key) for key in ("last_contact_s", "rtt_ms", "offset_ms", "shared", "problem")},
        "state": "blocked" if known.blocked else state,
        "grant": known.grant,
        "uplink": known.uplink,
        "until_s": known.until_s,
    }


def _learned(now: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a neighbour that a service of the node has added or given rights."""
    same = (
        "name",
        "learned",
        "rtt_ms",
        "offset_ms",
        "state",
        "uplink",
        "problem",
        "until_s",
        "last_contact_s",
        "shared",
    )
    return {
        "address": bytes.fromhex(now["address"]),
        **{key: now[key] for key in same},
        "grant": tuple(now["grants"]),
        "urls": tuple(now["urls"]),
        "said_urls": tuple(now["said_urls"]),
    }


def _known(home: Home, names: Names, text: str) -> PublicKey | None:
    """Return the neighbour's key; None if the text is no known name but may be a file."""
    try:
        return _neighbour(home, names, text)
    except UnknownName as error:
        if given_link.may_be_file(text):
            return None
        raise UnknownName(f"{error}; a link begins with {SCHEME}") from None


def _check_new(home: Home, key: PublicKey, given: str, edit: _Edit) -> None:
    """Raise `UsageError` or `Failure` if the command cannot make a neighbour of this key."""
    if edit.only_takes:
        raise click.UsageError(
            f"{given} is no neighbour, so it has no rights to take away; `router peer list` shows them."
        )
    if was_own(home, key):
        raise Failure(Exit.USAGE, "this address was the node's own before its key was rotated: it is no neighbour")


def _neighbour(home: Home, names: Names, text: str) -> PublicKey:
    """Return the neighbour's key as `router.toml` has it, if it is there; raise `Failure` if it is this node's own."""
    try:
        key = names.address(text)
    except UnknownName as error:
        raise UnknownName(_said_by_themselves(home, text) or str(error)) from None
    if why := check_neighbour(home, key):
        raise Failure(Exit.USAGE, why)
    if not home.holds_node or _is_in_file(home, key):
        return key
    formers = ((_live() or {}).get(key.hex()) or {}).get("formerly", ())
    return next((one for one in (PublicKey(bytes.fromhex(one)) for one in formers) if _is_in_file(home, one)), key)


def _said_by_themselves(home: Home, name: str) -> str:
    """Return how to name the neighbours on the LAN that call themselves so, "" if there are none."""
    said = name.strip('"')
    quoted = f'"{said}"'
    found = [one["address"] for one in (_live() or {}).values() if one["name"] == quoted] if home.holds_node else []
    shown = " or ".join(key_text("addr", bytes.fromhex(one)) for one in found[:SAID_MAX])
    if not found:
        return ""
    more = f" or {len(found) - SAID_MAX} more, which `router peer list` lists" if len(found) > SAID_MAX else ""
    return (
        f"{quoted} is what a neighbour on the LAN calls itself, as anybody there may: name its address, {shown}{more}"
    )


def _peer(home: Home, key: PublicKey) -> Peer:
    """Return the neighbour's present block in the configuration file."""
    peers = configuration.load(home.config_path)[0].peers
    return next((one for one in peers if one.address == key), Peer(address=key))


def _is_in_file(home: Home, key: PublicKey) -> bool:
    return any(one.address == key for one in configuration.load(home.config_path)[0].peers)


def _expel(home: Home, key: PublicKey) -> list[str] | None:
    """End the rights that the running node has granted to a guest beside the file; return them, None if no node
    runs."""
    try:
        rights: list[str] = ask(home, EXPEL, key.hex())["rights"]
    except NodeUnavailable:
        return None
    return rights


def _ended(key: PublicKey, rights: list[str]) -> str:
    gone = f"its rights by invitation ({', '.join(rights)}) have ended" if rights else "it had no rights by invitation"
    return f"{key_text('addr', key)}: {gone}, but"


def _shown(peer: Peer) -> str:
    return peer.name or key_text("addr", peer.address)


def _change(change: PeerChange) -> bool:
    """Edit the file, then have the running node read it again; return whether a node runs."""
    home = invocation().home_to_write
    configuration.edit_peers(home.config_path, change)
    return reload_node(home)


def _tell(sentence: str, peer: Peer, running: bool, as_json: bool, ended: int = 0) -> None:
    """Print the result. `running`: a node runs and has read the change; `ended`: how many messages that ended."""
    if as_json:
        say_json({**asdict(peer), "running": running, **({"ended_messages": ended} if ended else {})})
    else:
        say(sentence)


def _grants(texts: tuple[str, ...], option: str) -> tuple[Grant, ...]:
    """Return the rights given by all options of that name, each of which may list several."""
    found = tuple(dict.fromkeys(one.strip() for text in texts for one in text.split(",") if one.strip()))
    for one in found:
        if one not in GRANTS:
            raise click.BadParameter(f'"{one}" is no right; rights are {", ".join(GRANTS)}', param_hint=option)
    return cast(tuple[Grant, ...], found)
