"""`router capd demo`: two wallets find each other over both kinds of link, though nodes and wallets go away."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import trio

from router.cli.command import Command, json_option
from router.cli.conditions import Condition, show_conditions
from router.cli.exits import Exit, Failure
from router.cli.output import say
from router.rig.ending import until_signalled
from router.rig.process import RigFailed
from services.capd.client import SERVICE
from services.capd.demo.stage import NAMES, Played, staged
from services.capd.demo.wallet import AGREED, DONE
from services.capd.nexa_client import NexaClientError


@click.command(cls=Command)
@json_option
def demo(as_json: bool) -> None:
    """Play two wallets that find each other, at nodes that are joined in two ways.

    Nodes one and two are joined by the protocol between Nexa nodes, two and three by routers. Bob leaves a standing
    query at three and goes; Alice's offer, posted at one, crosses both links and waits for him, and node one gets
    kill -9. Bob's reply brings a group that is sealed to Alice's prekey; then she rescinds the offer. Ends with the
    checked counts; exit code 1 if one of them is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="capd-demo-") as base:
        try:
            played = trio.run(until_signalled, _play, Path(base), as_json)
        except* (RigFailed, NexaClientError) as group:
            raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    said = f"node one was killed once; {played.seconds:.1f} s"
    show_conditions(list(checked(played)), said, as_json=as_json, seconds=round(played.seconds, 1))


async def _play(base: Path, as_json: bool) -> Played:
    async with staged(base, (lambda text: None) if as_json else say) as stage:
        return await stage.play()


def checked(played: Played) -> Iterator[Condition]:
    """Yield the conditions that a played demo must meet."""

    def check(text: str, counted: int, wanted: int) -> Condition:
        return Condition(text, counted, counted == wanted)

    offer, bob, alice = played.offer["id"], played.bob, played.alice
    all_of_them, on_wire = len(NAMES), played.wire
    yield check("pools hold the offer, over both kinds of link", len(played.held), all_of_them)
    yield check("message waits for Bob, whose process has ended", played.waited, 1)
    yield check("offer announced to a client that knows Nexa's protocol alone", on_wire["announced"], 1)
    yield check("offer served to that client", on_wire["served"], 1)
    yield check("offer relayed by node one after kill -9", int(played.after_kill == "relayed"), 1)
    yield check("offer taken by Bob, the one that waited", int(bob["taken"] == offer), 1)
    yield check("reply that Alice can open, with the offer's id", int(offer.endswith(alice["to"])), 1)
    read = sum(one["heard"] == text for one, text in ((alice, DONE), (bob, AGREED)))
    yield check("messages of the group read by the other", read, 2)
    yield check("offer rescinded", alice["rescinded"].count(offer), 1)
    yield check("pools hold it as rescinded", len(played.ended), all_of_them)
    yield check("secret told to the client of Nexa's protocol", on_wire["rescinded"], 1)
    yield check("pools serve it still", sum(played.served.values()), 0)
    yield check("wallets told of it when it was brought again", played.told_again, 0)
    of_wire = sum(count for name, count in on_wire.items() if name.startswith(("served by", "found at")))
    yield check("nodes serve it still to clients of Nexa's protocol", of_wire, 0)
    told = [name for name, events in played.why.items() if {"capd_accepted", "capd_rescinded"} <= set(events)]
    yield check("nodes whose router why tells of its way in and its end", len(told), all_of_them)
    row: dict[str, int] = next((one for one in played.audit["services"] if one["service"] == SERVICE), {})
    lost = played.audit["unaccounted"] + row.get("unaccounted", 0)
    yield check("unaccounted for by router audit", lost, 0)
