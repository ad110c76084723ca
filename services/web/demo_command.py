"""`router web demo`: what the web side does for those without a browser, though the node is killed."""

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
from services.web.demo.script_client import NoAnswer
from services.web.demo.stage import FIRST, Played, staged


@click.command(cls=Command)
@click.option(
    "--messages", default=20, type=click.IntRange(2, 1_000), show_default=True, help="Messages of the script."
)
@json_option
def demo(messages: int, as_json: bool) -> None:
    """Play a node with a web side, a script that posts, and a reader elsewhere.

    The script posts by HTTP, with a token; the reader comes over a WebSocket. While it is away the node gets kill -9.
    Ends with the checked counts; exit code 1 if one of them is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="web-demo-") as base:
        try:
            played = trio.run(until_signalled, _play, Path(base), messages, as_json)
        except* (RigFailed, NoAnswer) as group:
            raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    said = f"the node was killed once, and {played.repeated} posts were repeated; {played.seconds:.1f} s"
    show_conditions(list(checked(played)), said, as_json=as_json, seconds=round(played.seconds, 1))


async def _play(base: Path, messages: int, as_json: bool) -> Played:
    async with staged(base, (lambda text: None) if as_json else say) as stage:
        return await stage.play(messages)


def checked(played: Played) -> Iterator[Condition]:
    """Yield the conditions that a played demo must meet."""

    def check(text: str, counted: float, wanted: float) -> Condition:
        return Condition(text, int(counted), counted == wanted)

    numbers = [int(one) for one in played.received if one.isdecimal()]
    posted = range(played.messages)
    yield check("page that the invitation opens is there", played.chat_page == 200, 1)
    yield check("node is ready, by /health/ready", played.ready == 200, 1)
    yield check("message reached its reader, as GET /messages/ID tells", played.told.get("reached", 0), 1)
    yield check("message read from the stream of events, too", played.events == [FIRST], 1)
    yield check("delivery counted by /metrics", played.delivered, 1)
    yield check("messages acknowledged with 201", played.answered, played.messages)
    yield Condition("of them after kill -9", played.after_kill, played.after_kill > 0)
    yield check("messages waited for the reader", played.waiting, played.messages)
    yield check("of those acknowledged, lost", len(set(posted) - set(numbers)), 0)
    yield check("came twice", len(numbers) - len(set(numbers)), 0)
    yield check("came out of order", numbers != sorted(numbers), 0)
    tokens = [one["fields"].get("token") for one in played.why]
    yield check("token named by router why", tokens == ["alarm"], 1)
    yield check("unaccounted for by router audit", played.audit.get("unaccounted", 1), 0)
