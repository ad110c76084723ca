"""`router invite`: links that let others in at this node, with rights and perhaps a group (R-D14)."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import reduce
from typing import Any, NamedTuple

import click

from router.cli import qr
from router.cli.ask import ask
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.group_changes import tell_services
from router.cli.output import NAME_MAX, clipped, columns, hint, note, say, say_json, short_text
from router.cli.waiting_messages import ended_text, tell_of_waiting
from router.cli.when import SECOND_NS, time_ns
from router.core.control.guests import WITH_GUESTS
from router.core.wire.address import (
    ADDRESSES_MAX,
    AddressSource,
    Reach,
    TransportAddress,
    addresses_of_node,
    parse_address,
    reach_of,
    refusal_of,
)
from router.core.wire.crypto import PublicKey
from router.core.wire.grouplink import GroupLink, new_group
from router.core.wire.invitation import LIFE_S_MAX, RIGHTS, SECRET_BYTES, Invitation, make_invitation
from router.core.wire.lifetime import expiry_min, expiry_s
from router.core.wire.text import counted, span_text
from router.settings import config, keyring
from router.settings.config import Config
from router.settings.config_peers import Peer, RemovePeer
from router.settings.durations import span_s
from router.settings.home import Home
from router.settings.keyring import NAME_PATTERN
from router.transport import contract as transport

Function = Callable[..., Any]
EXPIRES = "7d"
GRANT = "join,store,relay"


class SpanParameter(click.ParamType[int, Any]):
    """A time span with its unit, as 7d, or a time to come, as 2027-03-12; its value is in seconds from now."""

    name = "D"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        at_ns, span = time_ns(value), span_s(value)
        seconds = int(span or 0) if at_ns is None else int(at_ns / SECOND_NS - time.time())
        if not 0 < seconds <= LIFE_S_MAX:
            said = "is no time span like 30m, 12h, 7d or 2w, nor a time to come like 2027-03-12T17:30 (UTC)"
            self.fail(f'"{value}" {said}, of at most ten years', param, ctx)
        return seconds


class RightsParameter(click.ParamType[tuple[str, ...], Any]):
    """Rights, comma-separated."""

    name = "RIGHTS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = tuple(dict.fromkeys(one.strip() for one in value.split(",") if one.strip()))
        unknown = [one for one in found if one not in RIGHTS]
        if unknown or not found:
            said = f'"{unknown[0]}" is no right' if unknown else "it grants nothing"
            self.fail(f"{said}; rights are {', '.join(RIGHTS)}", param, ctx)
        return found


def options(grant: str) -> Callable[[Function], Function]:
    """Add what all commands that invite ask for; `grant`: the rights unless others are named."""
    added = (
        click.option(
            "--grant", type=RightsParameter(), default=grant, help=f"The guest's rights here. Default: {grant}."
        ),
        click.option("--uses", type=click.IntRange(1, 1000), default=1, help="How many guests it lets in. Default: 1."),
        click.option(
            "--expires",
            type=SpanParameter(),
            default=EXPIRES,
            help=f"How long it lets guests in: 30m, 12h, 7d, 2w; or until when. Default: {EXPIRES}.",
        ),
        click.option(
            "--until",
            type=SpanParameter(),
            help="How long, from now, guests keep the rights, or until when: 90d, 2027-03-12. Default: without an end.",
        ),
        click.option(
            "--name",
            help="How guests are to call this node; no name for the guest. Default: node.name of this node.",
        ),
        click.option("--read-only", is_flag=True, help="Let guests read the group only."),
        qr.options,
        json_option,
    )

    def with_options(command: Function) -> Function:
        return reduce(lambda found, option: option(found), reversed(added), command)

    return with_options


@click.group(cls=CommandGroup, invoke_without_command=True)
@options(GRANT)
@click.option(
    "--group",
    help="The name of a group that guests join; it is made if there is none, and none with a name nearly the same.",
)
@click.option("--at", metavar="URL", multiple=True, help="Where guests reach this node. Default: node.advertise.")
@click.pass_context
def invite(
    ctx: click.Context, /, at: tuple[str, ...], group: str | None, draw: qr.Drawing, as_json: bool, **wish: Any
) -> None:
    """Print a link that lets others in. The node must run.

    Whoever has the link becomes a neighbour of this node, with the rights it names, by `router peer add LINK` there.
    """
    if ctx.invoked_subcommand is not None:
        return
    if wish["read_only"] and group is None:
        raise click.UsageError("--read-only needs a --group.")
    qr.check(draw)
    home = invocation().home_to_change
    settings = settings_that_let_in(home)
    issued = issue(home, settings, _addresses(home, settings, at), group, **wish)
    print_issued(issued, issued.link, draw, as_json)
    if not as_json:
        explain(issued, "Each guest runs `router peer add LINK` there")


def issue(
    home: Home,
    settings: Config,
    addresses: tuple[TransportAddress, ...],
    group: str | None,
    *,
    grant: tuple[str, ...],
    uses: int,
    expires: int,
    until: int | None,
    name: str | None,
    read_only: bool,
) -> Issued:
    """Make an invitation, with the group if there is none of this name, and have the running node keep it."""
    link = _group(home, group, read_only=read_only)
    now_s = time.time()
    made = make_invitation(
        keyring.load(home, keyring.NODE),
        addresses,
        secrets.token_bytes(SECRET_BYTES),
        expiry_min=expiry_min(now_s + expires),
        rights=grant,
        name=settings.node.name if name is None else name,
        group=link,
    )
    issued = Issued(made, made.text(), uses, 0 if until is None else int(now_s + until), name or "", group or "")
    _order(home, issued)
    return issued


class Issued(NamedTuple):
    """An invitation, its link, and what only this node knows of it: how many guests it lets in, the Unix second at
    which their rights end (0: never), and the names given for this node and for the group ("" if none)."""

    made: Invitation
    link: str
    uses: int
    ends_s: int
    name: str
    group: str

    @property
    def until_s(self) -> int:
        """Return the Unix second until which it lets guests in."""
        return expiry_s(self.made.expiry_min)


def print_issued(issued: Issued, link: str, draw: qr.Drawing, as_json: bool) -> None:
    """Print the link as it is given on, even if its QR code cannot be drawn."""
    made = issued.made
    try:
        leave_out = "addresses of --at, the --group, or the --name"
        qr.show(link, draw, leave_out=leave_out, on_terminal=not as_json)
    finally:
        if as_json:
            say_json(
                {
                    "id": made.id,
                    "link": link,
                    "expires": _time_text(issued.until_s),
                    "uses": issued.uses,
                    "grants": made.rights,
                    "until": _time_text(issued.ends_s) if issued.ends_s else None,
                }
            )
        else:
            say(link)


def explain(issued: Issued, what_to_do: str) -> None:
    """Say whom the link lets in, and what to do with it."""
    made = issued.made
    times = "one guest" if issued.uses == 1 else f"{issued.uses} guests"
    keep = f"; they keep their rights until {_time_text(issued.ends_s)}" if issued.ends_s else ""
    note(f"invitation {made.id.hex()[:8]}: it lets in {times} until {_time_text(issued.until_s)}{keep}")
    if issued.name:
        note(f'guests see this node as "{made.name}"; a guest brings its own name, the node.name of its router.toml')
    hint(
        f"the link is a secret: give it on in private. {what_to_do}. "
        f"`router invite revoke {made.id.hex()[:8]}` takes it back"
    )


LISTED = ("ID", "NAME", "RIGHTS", "USED", "STATE", "ENDS IN")
"""The columns of `router invite list`."""
LISTED_NAME_MAX = 14
"""The most characters of a name in `router invite list`, whose widest row then has 80."""


def list_table(rows: Iterable[dict[str, Any]], now_s: float) -> list[tuple[str, ...]]:
    """Return the cells of `router invite list`, a row for each invitation; with its columns they fit 80 characters."""
    return [
        (
            one["id"][:8],
            clipped(one["name"] or "-", LISTED_NAME_MAX),
            ",".join(one["grants"]),
            f"{one['used']}/{one['uses']}",
            one["state"],
            span_text(one["expires_s"] - now_s) if one["state"] == "open" else "-",
        )
        for one in rows
    ]


def of_one_each(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each invitation, of those in which the node gives one with many guests."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        guests = found[row["id"]]["guests"] if row["id"] in found else []
        found[row["id"]] = {**row, "guests": [*guests, *row["guests"]]}
    return list(found.values())


@invite.command("list", cls=Command)
@json_option
def list_invitations(as_json: bool) -> None:
    """List the invitations of this node, and how many guests each has let in."""
    rows = of_one_each(ask(invocation().home, "invites"))
    if as_json:
        say_json([{**one, "expires": _time_text(one["expires_s"])} for one in rows])
        return
    table = list_table(rows, time.time())
    columns(LISTED, table, "no invitations; `router invite` makes one")
    for row in rows:
        for guest in row["guests"]:
            name = f"{clipped(guest['name'], NAME_MAX)} " if guest["name"] else ""
            told = "" if guest["written"] else ", not yet in router.toml"
            say(f"{row['id'][:8]}  {name}{short_text('addr', bytes.fromhex(guest['address']))}{told}")


@invite.command("revoke", cls=Command)
@click.argument("id")
@click.option("--with-guests", is_flag=True, help="Remove the guests that it has let in, with all their rights.")
@json_option
def revoke(id: str, with_guests: bool, as_json: bool) -> None:
    """Take back the invitation with this ID, or its beginning: it lets in nobody new.

    Guests that it has let in stay; `router peer remove` removes one, and --with-guests all of them: if messages wait
    for these, the command says how many, and at a terminal asks first. One that is blocked stays blocked.
    """
    home = invocation().home_to_change
    waited = _tell_of_guests(home, id) if with_guests else 0
    found = ask(home, "uninvite", f"{id} {WITH_GUESTS}" if with_guests else id)
    if with_guests:
        _remove(home, [PublicKey(bytes.fromhex(one)) for one in found["removed"]])
    if as_json:
        say_json({**found, **({"ended_messages": waited} if waited else {})})
        return
    say(f"{revoked_text(found, with_guests)}{ended_text(waited, 'them')}")


def _tell_of_guests(home: Home, prefix: str) -> int:
    """Say how many messages for the guests of the invitation whose id begins so are about to end, and return that."""
    found = [one for one in of_one_each(ask(home, "invites")) if one["id"].startswith(prefix.lower())]
    if len(found) != 1:
        return 0  # the node says what is wrong with the id
    guests = [PublicKey(bytes.fromhex(guest["address"])) for guest in found[0]["guests"]]
    return tell_of_waiting(home, guests, f"the guests of {found[0]['id'][:8]}")


def revoked_text(found: Mapping[str, Any], with_guests: bool) -> str:
    """Return what was revoked, and what became of the guests. `found`: the node's answer to `uninvite`."""
    what = "removed" if with_guests else "still let in, and `router peer remove` removes one"
    count, blocked = found["guests"], found.get("blocked", 0)  # of an older node: not counted
    guests = f"; {counted(count, 'guest')} of it {'is' if count == 1 else 'are'} {what}" if count else ""
    stay = f"; {counted(blocked, 'guest')} {'stays' if blocked == 1 else 'stay'} blocked" if blocked else ""
    return f"the invitation {found['revoked'][:8]} is revoked{guests}{stay}"


def _remove(home: Home, guests: Sequence[PublicKey]) -> None:
    """Remove the entries of these neighbours from the file, and have the running node read it again."""
    for key in removable(config.load(home.config_path)[0].peers, guests):
        config.edit_peers(home.config_path, RemovePeer(key))
    ask(home, "reload")


def removable(peers: Iterable[Peer], guests: Sequence[PublicKey]) -> list[PublicKey]:
    """Return the guests whose entries go with their invitation: none that is blocked, as its entry shuts it out."""
    return [one.address for one in peers if one.address in guests and not one.blocked]


def _order(home: Home, issued: Issued) -> None:
    """Have the running node keep the invitation; the secret stays in this process."""
    said = {
        "id": issued.made.id.hex(),
        "rights": issued.made.rights,
        "uses": issued.uses,
        "until_s": issued.until_s,
        "grant_until_s": issued.ends_s,
        "name": (issued.name or issued.group)[:64],
    }
    ask(home, "invite", json.dumps(said))


def settings_that_let_in(home: Home) -> Config:
    """Return the node's configuration; raise `Failure` if it lets in no strangers at all."""
    settings = config.load(home.config_path)[0]
    if not settings.limits.strangers_connections_max:
        said = "no guest could redeem it, because limits.strangers_connections_max is 0"
        raise Failure(Exit.USAGE, f"{said}; raise it in {home.config_path} and start the node again")
    return settings


def _addresses(home: Home, settings: Config, at: tuple[str, ...]) -> tuple[TransportAddress, ...]:
    """Return the addresses where guests reach the running node: those given, those advertised, or its listeners."""
    given = tuple(address_to_dial(url, "--at ") for url in at)
    status = ask(home, "status")  # of a node that runs, before anything is made for it
    listeners, later = status["listeners"], [one["url"] for one in status["announced"] if one["state"] == "next"]
    here = addresses_of_node(settings.node.advertise or listeners)
    found = given or (*here, *map(parse_address, later))[:ADDRESSES_MAX]
    if why := why_unreached(listeners, home):
        if not at:
            raise Failure(Exit.USAGE, why)
        note(f"{why}; or --at names something that passes on to this node what comes there")
    if not found:
        said = "guests would not know where to reach this node"
        remedy = f"give --at tls://HOST:PORT, or write it into {home.config_path} as node.advertise"
        raise Failure(Exit.USAGE, f"{said}; {remedy}")
    another = f"give {'another' if at else 'an'} address by --at"
    if all(reach_of(one.host) is Reach.LOOPBACK for one in found):
        note(f"that link leads back to this machine: only nodes that run here can use it; for others, {another}")
    elif all(reach_of(one.host) in (Reach.LOOPBACK, Reach.PRIVATE) for one in found):
        note(f"that link leads into a private network: only nodes there can use it; for others, {another}")
    return found


def address_to_dial(url: str, said_by: str = "") -> TransportAddress:
    """Return the address in an invitation; raise `Failure` if guests could not dial it, or the transport's error."""
    transport.check(url)
    found = parse_address(url)
    if refused := refusal_of(found, AddressSource.OPERATOR, on_loopback=True):
        raise Failure(Exit.USAGE, f"{said_by}{url}: {refused[1]}")
    return found


def why_unreached(listeners: Iterable[str], home: Home) -> str:
    """Return why no guest can reach a node that listens there, with the remedy; "" if guests may."""
    if not all(transport.is_local(url) for url in listeners):
        return ""
    said = "this node listens for apps of its own machine only, so no guest reaches it"
    return f"{said}; name a URL in node.listen of {home.config_path}, like tls://0.0.0.0:4100, and start it again"


def _group(home: Home, name: str | None, *, read_only: bool) -> GroupLink | None:
    """Return the group with that name; make it if its name is unlike all known ones."""
    if name is None:
        return None
    known = keyring.groups(home)
    if re.fullmatch(NAME_PATTERN, name) and not get_close_matches(name, known, n=1, cutoff=0.7):
        with suppress(keyring.NameTaken):  # another command has just made it
            keyring.add_group(home, name, new_group(secrets.token_bytes(32), secrets.token_bytes(32), name))
            tell_services(home)
            note(f"there was no group {name}: made one; `router sub {name}` reads it")
    try:
        found, link = keyring.find(home, name)
    except keyring.KeyringError:
        keyring.checked(name)  # one that can be no name is not made either
        raise
    if link.seed is None and not read_only:
        note(f"guests can only read: the right to send to {found} is not kept here")
    return link.read_only() if read_only else link


def _time_text(at_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
