"""`router move`: announce to the neighbours an address at which this node is reached from some time on."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import click
import trio

from router.cli import loop
from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.invite import address_to_dial
from router.cli.output import columns, note, say, say_json
from router.cli.when import SECOND_NS, When
from router.core.control.moving import MOVE, PLACES, UNMOVE
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.text import counted, key_text
from router.transport import contract as transport
from router.transport.contract import ConnectFailed

DIAL_S = 5.0
PAST_S_MAX = 120
"""How long ago `--since` may be; whoever writes the present minute is right."""


@click.command(cls=Command)
@click.argument("url", required=False)
@click.option(
    "--since",
    type=When("in how long"),
    metavar="WHEN",
    help="From when it is reached there, or in how long (2h). Default: now.",
)
@click.option("--forget", metavar="URL", help="Take an announced address back.")
@json_option
def move(url: str | None, since: float | None, forget: str | None, as_json: bool) -> None:
    """Announce that this node moves to URL, or show what it announces.

    Each neighbour that connects to this node keeps the three newest addresses in its own book, tries the one in its
    `router.toml` first, and these if that does not answer. So announce early, stop the node when all have heard it,
    `router backup` it, `router restore` there, and name URL in node.advertise there. Never let both run.
    """
    home = invocation().home
    if url and forget:
        raise click.UsageError("either announce an address or take one back, not both.")
    if since is not None and not url:
        raise click.UsageError("--since says from when a URL counts, and no URL is given.")
    if forget:
        _tell(ask(home, UNMOVE, str(address_to_dial(forget).url)), as_json)
        return
    if not url:
        _tell(ask(home, PLACES), as_json)
        return
    address_to_dial(url)
    own = ask(home, "status")["address"]
    if why := loop.run(_who_is_there, url, own):
        raise Failure(Exit.USAGE, why)
    found = ask(home, MOVE, json.dumps({"url": url, "since_s": _since_s(since)}))
    for one in found["gone"]:
        note(f"{one} is named no longer: three addresses are the most")
    _tell(found, as_json)


def _since_s(given: float | None) -> int:
    """Return the Unix second of `--since`, 0 for now; a span lies ahead, and a time that is over is refused."""
    if given is None:
        return 0
    found = int(time.time() - given) if isinstance(given, float) else given // SECOND_NS
    if found > UINT32_MAX:
        raise click.BadParameter("years up to 2106 can be announced.", param_hint="--since")
    if found < time.time() - PAST_S_MAX:
        said = f"{_at(found)} is over: leave --since out for an address that counts at once, or name a time to come."
        raise click.BadParameter(said, param_hint="--since")
    return found


async def _who_is_there(url: str, own: str) -> str:
    """Return why this node cannot move there, because another router answers; "" if nobody does, or this one."""
    try:
        stream = await transport.dial(url, SigningKey(os.urandom(32)), None, timeout_s=DIAL_S)
    except ConnectFailed:
        return ""
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()
    if stream.peer is None or stream.peer.hex() == own:
        return ""
    return (
        f"at {url} another router answers, {key_text('addr', stream.peer)}, so nobody would find this node there; "
        "give another address, or stop that router first"
    )


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    rows = [(one["url"], _at(one["since_s"]), one["state"]) for one in found["places"]]
    columns(("ADDRESS", "SINCE", "STATE"), rows, "this node names no address to others; see node.advertise")
    if rows:
        say(f"known to {found['told']} of {counted(found['neighbours'], 'connected neighbour')}")
        if found["told"] < found["neighbours"]:
            note("those that are connected hear it within seconds: `router move` shows it")
        note("a neighbour that is away hears it when it connects here; later it needs `router peer add NAME URL` there")


def _at(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(second))
