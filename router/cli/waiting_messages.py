"""What waits for a neighbour whose queue a command is about to end: said before that, and asked about at a terminal."""

from __future__ import annotations

import click

from router.cli.ask import ask, ask_peers
from router.cli.exits import Exit, Failure
from router.cli.output import at_terminal, for_this_home, note
from router.cli.streams import input_at_terminal
from router.client.errors import NodeUnavailable
from router.core.wire.crypto import PublicKey
from router.core.wire.text import counted
from router.settings.home import Home


def waiting_for(home: Home, key: PublicKey) -> int:
    """Return how many messages wait at the running node for a neighbour, by this key or the one that followed it; 0 if
    no node runs."""
    try:
        keys = {key.hex()} | {one["address"] for one in ask_peers(home) if key.hex() in one.get("formerly", ())}
        return sum(one["messages"] for one in ask(home, "queue") if one["recipient"] in keys)
    except NodeUnavailable:
        return 0


def tell_of_waiting(home: Home, key: PublicKey, shown: str) -> int:
    """Say how many messages for a neighbour are about to end, and return that. At a terminal ask first; raise
    `Failure` if they are to stay. `shown`: the neighbour's name."""
    if not (count := waiting_for(home, key)):
        return 0
    waits = f"{counted(count, 'message')} for {shown} {'waits' if count == 1 else 'wait'} here"
    kept = "to keep what waits, do this when it has been handed over, as `router queue` shows"
    if input_at_terminal() and at_terminal():
        if click.confirm(for_this_home(f"{waits}; {kept}. End all of that now"), err=True):
            return count
        raise Failure(Exit.USAGE, "nothing was changed")
    note(f"{waits} and will end: dropped, reason left; {kept}")
    return count


def ended_text(count: int) -> str:
    """Return what a command adds about the messages that it has ended; "" for none."""
    return f"; {counted(count, 'message')} that waited for it {'has' if count == 1 else 'have'} ended" if count else ""
