"""`router peer add INVITATION`: show an invitation, ask the user, keep it, and wait for its router's answer (R-D16)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import click
import trio
from msgspec import Struct
from msgspec.structs import replace

from router.cli import loop
from router.cli.command import invocation
from router.cli.exits import Exit, Failure, is_interrupt
from router.cli.group_changes import tell_services
from router.cli.node_link import dialled
from router.cli.output import for_this_home, hint, note, say, say_json
from router.cli.preflight import check_neighbour, was_own
from router.cli.streams import input_at_terminal
from router.client.errors import ClientError, NodeUnavailable
from router.client.node import connect
from router.core.neighbours.directory import INVITED, JOIN
from router.core.wire.address import AddressSource, Reach, reach_of
from router.core.wire.invitation import LIFE_S_MAX, Invitation
from router.core.wire.lifetime import expiry_s
from router.core.wire.text import clean, key_text, span_text
from router.settings import config as configuration
from router.settings import keyring, received
from router.settings.config_peers import AddPeer, Peer, PeerChange, UpdatePeer
from router.settings.config_text import ConfigError
from router.settings.home import Home
from router.settings.keyring import NAME_PATTERN
from router.settings.received import ReceivedInvitation

TIMEOUT_S = 60.0
LOOK_S = 0.1
TERMS_S = 2.0
STOPPED = "the node here has stopped"
NOT_RUNNING = "no node is running here"


class Wishes(Struct, frozen=True):
    """The command's options for the neighbour that an invitation makes, and for waiting.

    `change` edits `router.toml` and returns whether a node runs, which has read it again."""

    change: Callable[[PeerChange], bool]
    urls: tuple[str, ...] = ()
    name: str | None = None
    grant: tuple[Any, ...] = ()
    uplink: bool | None = None
    yes: bool = False
    timeout_s: float = TIMEOUT_S
    as_json: bool = False


def take(invitation: Invitation, wishes: Wishes) -> None:
    """Keep the invitation and make its router a neighbour once the user has agreed; then wait for the answer."""
    home, now_s = invocation().chosen_home, time.time()
    settings = configuration.load(home.config_path)[0]
    known = next((one for one in settings.peers if one.address == invitation.inviter), None)
    _check(home, invitation, known, now_s)
    urls = wishes.urls or dialled(invitation.addresses, AddressSource.INVITATION)
    peer = _peer(
        invitation, known, urls, wishes, {*(one.name for one in settings.peers), *(one.name for one in settings.local)}
    )
    before = received.find(home, invitation.id)
    if before is None or before.outcome == "refused":
        _show(home, invitation, urls, known, now_s)
        if not wishes.yes:
            _ask()
    home = invocation().home_to_write
    kept = received.keep(home, invitation)
    cause, runs = NOT_RUNNING, False
    try:
        runs = wishes.change(UpdatePeer(peer) if known else AddPeer(peer))
        if kept.outcome == "waiting" and runs:
            hint(f"asking {_shown(peer)} at {', '.join(peer.urls)} to be let in; Ctrl-C leaves the node asking")
            cause = loop.run(look, home, kept.id, wishes.timeout_s)
            kept = received.find(home, invitation.id) or kept
    except (ConfigError, OSError):  # the file is as it was
        if before is None:
            received.drop(home, invitation.id)
        raise
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        if is_interrupt(error):
            asks = "the node goes on asking"
            if not runs:  # or it was about to be heard that it does
                asks = f"the link is kept, and {asks}; `router serve` starts it if it does not run"
            note(f"{asks}; `router peer list` shows the answer")
        raise
    if kept.group:
        tell_services(home)
    _end(kept, peer, cause, received.rights_at(home, invitation.inviter, time.time()), wishes.as_json)


# -- what is wrong with it ---------------------------------------------------------------------------------


def _check(home: Home, invitation: Invitation, known: Peer | None, now_s: float) -> None:
    """Raise `Failure` if the invitation cannot be taken here, with the cause and the remedy."""
    if check_neighbour(home, invitation.inviter) or was_own(home, invitation.inviter):
        said = "this is an invitation by this node itself: give it to those whom it is meant for"
        raise Failure(Exit.USAGE, f"{said}; `router invite list` shows who has come by it")
    if known is not None and known.blocked:
        shown = _shown(known)
        said = f"{shown}, who invites, is blocked on this node"
        raise Failure(Exit.USAGE, f"{said}; `router peer unblock {shown}` lets it in again, then take the invitation")
    clock = f"by this machine's clock, which shows {_utc(now_s)}"
    end_s = expiry_s(invitation.expiry_min)
    if end_s <= now_s:
        said = f"this invitation ended {span_text(now_s - end_s)} ago, on {_utc(end_s)}, {clock}"
        raise Failure(Exit.USAGE, f"{said}; ask for a new one, or set the clock if it is wrong")
    if end_s > now_s + LIFE_S_MAX + 86_400:
        said = f"this invitation would end only in {span_text(end_s - now_s)}, on {_utc(end_s)}, {clock}"
        longest = f"none is made for more than {span_text(LIFE_S_MAX)}, so the clock is behind"
        raise Failure(Exit.USAGE, f"{said}; {longest}: set it, then take the invitation again")
    if (group := invitation.group) is not None:
        for name, link in keyring.groups(home).items():
            if link.group == group.group and link.content_key != group.content_key:
                said = f"this invitation opens its group by another key than the link that is kept here as {name}"
                raise Failure(Exit.USAGE, f"{said}: one of them is damaged; ask for the group's link and compare them")


def _peer(invitation: Invitation, known: Peer | None, urls: tuple[str, ...], wishes: Wishes, taken: set[str]) -> Peer:
    """Return the neighbour's block: its present values, with the URLs and the uplink of the invitation added."""
    before = known or Peer(address=invitation.inviter, learned=INVITED)
    name = before.name if wishes.name is None else wishes.name
    if known is None and wishes.name is None:
        proposed = re.sub(r"[^A-Za-z0-9._-]+", "-", invitation.name or "").strip("-.")
        name = proposed if re.fullmatch(NAME_PATTERN, proposed) and proposed not in taken else ""
    uplink = before.uplink or JOIN in invitation.rights
    return replace(
        before,
        name=name,
        urls=tuple(dict.fromkeys((*urls, *before.urls))),
        grant=wishes.grant or before.grant,
        uplink=uplink if wishes.uplink is None else wishes.uplink,
    )


# -- what the user sees and says ---------------------------------------------------------------------------


def _show(home: Home, invitation: Invitation, urls: tuple[str, ...], known: Peer | None, now_s: float) -> None:
    end_s, group = expiry_s(invitation.expiry_min), invitation.group
    rows = [
        ("invited by", " ".join(filter(None, (key_text("addr", invitation.inviter), _quoted(invitation.name))))),
        ("at", ", ".join(urls)),
        ("lets us", ", ".join(invitation.rights)),
        ("ends", f"{_utc(end_s)}, in {span_text(end_s - now_s)}"),
    ]
    if group is not None:
        kept = {link.group: name for name, link in keyring.groups(home).items()}.get(group.group)
        right = "to read" if group.seed is None else "to read and write"
        name = clean(group.name or key_text("group", group.group))
        rows.append(("group", f"{name}, {right}" + (f"; it is kept here as {kept} already" if kept else "")))
    for title, value in rows:
        note(f"{title.ljust(10)}  {value}")
    if known is not None:
        earlier = [one for one in received.received(home) if one.key == invitation.inviter]
        if known.learned == INVITED and earlier and all(one.outcome == "refused" for one in earlier):
            why = max(earlier, key=lambda one: one.known_s).reason
            note(f"{_shown(known)} has refused an invitation from here before ({why}): it is asked again")
        else:
            note(f"{_shown(known)} is a neighbour already: its entry stays, and what the invitation offers is added")
    if all(reach_of(one.host) is Reach.PRIVATE for one in invitation.addresses):
        note("its addresses lie in a private network: it can be reached from inside that network only")


def _ask() -> None:
    if not input_at_terminal():
        said = "this asks before it makes a neighbour, and standard input is no terminal"
        raise Failure(Exit.USAGE, f"{said}: give --yes to agree")
    if not click.confirm("Become its guest?", err=True):
        raise Failure(Exit.FAILED, "nothing was changed")


def _quoted(name: str | None) -> str:
    return f'("{name}")' if name else ""


def _utc(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix_s))


def _shown(peer: Peer) -> str:
    return peer.name or key_text("addr", peer.address)


# -- waiting and the end -----------------------------------------------------------------------------------


async def look(home: Home, id: str, timeout_s: float) -> str:
    """Wait for the answer, and print each obstacle once; look at the node at least once. Return the last obstacle."""
    cause, until_s = "", trio.current_time() + timeout_s
    try:
        async with connect(home=home) as node:
            while True:
                rows = json.loads(await node.ask("invited"))
                row = next((one for one in rows if one["id"] == id), None)
                if row is None or row["outcome"] == "joined" or (row["outcome"] == "refused" and row["told"]):
                    return ""
                if row["outcome"] == "refused":  # what we may do there all the same is told next
                    until_s = min(until_s, trio.current_time() + TERMS_S)
                    row["cause"] = cause
                if row["cause"] != cause:
                    hint(f"not yet: {row['cause']}" if row["cause"] else "connected again")
                cause = str(row["cause"])
                if trio.current_time() >= until_s:
                    return cause
                await trio.sleep(LOOK_S)
    except NodeUnavailable:
        return STOPPED
    except ClientError as error:
        return f"the node here does not answer: {error}"


def _end(one: ReceivedInvitation, peer: Peer, cause: str, rights: tuple[str, ...], as_json: bool) -> None:
    """Print the outcome; raise `Failure` if the invitation was not accepted. `rights`: those that we have
    nevertheless."""
    shown = _shown(peer)
    if as_json:
        say_json(
            {
                "address": one.key,
                "name": peer.name,
                "outcome": one.outcome,
                "reason": one.reason or None,
                "rights": one.rights,
                "group": one.group or None,
                "had": one.had,
            }
        )
    if one.outcome == "refused":
        said = f"{shown} refused the invitation ({one.reason}): {one.sentence}"
        advice = f"Ask for a new one, or remove its entry by `router peer remove {shown}`."
        if rights:
            advice = f"What it lets us do stays: {', '.join(rights)}."
        raise Failure(Exit.REFUSED, f"{said} {advice}")
    if one.outcome == "waiting":
        raise Failure(Exit.TIMED_OUT, _waits(one, shown, cause, rights))
    if not as_json:
        until = f" until {_utc(one.grant_until_s)}" if one.grant_until_s else ""
        if one.had:
            say(f"{shown} lets us {', '.join(one.rights)}{until} already: no use of this invitation was taken")
        else:
            say(f"{shown} is a neighbour now and lets us {', '.join(one.rights)}{until}")
        if one.group:
            say(for_this_home(f"the group {one.group} is kept here: `router sub {one.group}` listens to it"))
        if one.sentence:
            note(one.sentence)


def _waits(one: ReceivedInvitation, shown: str, cause: str, rights: tuple[str, ...]) -> str:
    """Return that an invitation waits for its answer, and what it gave before if it was accepted then."""
    asks = "the node goes on asking"
    if cause in (NOT_RUNNING, STOPPED):
        asks = "`router serve` starts the node, which then asks"
    goes_on = f"{asks} until {_utc(one.until_s)}; `router peer list` shows the answer"
    said = f"{shown} has not let us in yet"
    if not one.is_open and rights:
        at, may = _utc(one.answered_s), ", ".join(rights)
        said = f"{shown} let us in by it on {at}, to {may}; asked again, it is silent"
    return f"{said}: {cause or 'it has not answered'}\n{goes_on}"
