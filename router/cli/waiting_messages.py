"""What waits for a neighbour whose queue a command is about to end: said before that, and asked about at a terminal."""

from __future__ import annotations

from collections.abc import Collection

import click

from router.cli.ask import ask, ask_peers
from router.cli.exits import Exit, Failure
from router.cli.output import at_terminal, for_this_home, note
from router.cli.streams import input_at_terminal
from router.client.errors import NodeUnavailable
from router.core.neighbours.directory import JOIN, OF_CLIENTS, STORE
from router.core.wire.crypto import PublicKey
from router.core.wire.text import counted
from router.settings.config_peers import Peer
from router.settings.home import Home

KEPT = "to keep what waits, do this when it has been handed over, as `router queue` shows"


def waiting_for(home: Home, keys: Collection[PublicKey]) -> int:
    """Return how many messages wait at the running node for neighbours, by these keys or those that followed them; 0 if
    no node runs."""
    given = {key.hex() for key in keys}
    try:
        given |= {one["address"] for one in ask_peers(home) if given.intersection(one.get("formerly", ()))}
        return sum(one["messages"] for one in ask(home, "queue") if one["recipient"] in given)
    except NodeUnavailable:
        return 0


def tell_of_waiting(home: Home, keys: Collection[PublicKey], shown: str) -> int:
    """Say how many messages for neighbours are about to end, and return that. At a terminal ask first; raise `Failure`
    if they are to stay. `shown`: the neighbours' name."""
    if not (count := waiting_for(home, keys)):
        return 0
    waits = f"{counted(count, 'message')} for {shown} {'waits' if count == 1 else 'wait'} here"
    if input_at_terminal() and at_terminal():
        if click.confirm(for_this_home(f"{waits}; {KEPT}. End all of that now"), err=True):
            return count
        raise Failure(Exit.USAGE, "nothing was changed")
    note(f"{waits} and will end: dropped, reason left; {KEPT}")
    return count


def tell_of_lost(home: Home, before: Peer, after: Peer, shown: str) -> int:
    """Say how many messages for a neighbour end by a change of its entry, as `tell_of_waiting` does, and return that.

    Without `join` it is in no group any more, and what waits of its groups ends; without `store` all that waits does,
    unless it is connected."""
    lost = {*before.grant} - {*after.grant}
    if before.blocked:
        return 0
    queue_ends = STORE in lost or (_has_queue(before) and not _has_queue(after))
    if queue_ends and not _is_connected(home, after.address):
        return tell_of_waiting(home, [after.address], shown)
    if JOIN in lost and (count := waiting_for(home, [after.address])):
        waits = f"{counted(count, 'message')} for {shown} {'waits' if count == 1 else 'wait'} here"
        note(f"{waits}, and what of them is of a group will end: dropped, reason left")
    return 0


def _has_queue(one: Peer) -> bool:
    """Whether messages are kept for the neighbour while it is away: by `store`, or as a router that is sent to."""
    return STORE in one.grant or one.uplink or not OF_CLIENTS.intersection(one.grant)


def _is_connected(home: Home, key: PublicKey) -> bool:
    try:
        rows = ask_peers(home)
    except NodeUnavailable:
        return False
    known = [one for one in rows if key.hex() in (one["address"], *one.get("formerly", ()))]
    return any(one["state"] == "connected" for one in known)


def ended_text(count: int, whom: str = "it") -> str:
    """Return what a command adds about the messages that it has ended; "" for none."""
    have = "has" if count == 1 else "have"
    return f"; {counted(count, 'message')} that waited for {whom} {have} ended" if count else ""
