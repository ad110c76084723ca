"""`router top`: rates, queues, neighbours and what is wrong, once a second."""

from __future__ import annotations

import shutil

import click
import trio

from router.cli import loop
from router.cli.command import Command, invocation, json_option
from router.cli.output import say, say_json, while_read
from router.cli.spans import Seconds
from router.cli.top import terminal
from router.cli.top.screen import WIDTH, Moment, in_json, screen
from router.cli.top.watcher import one_moment, watch
from router.settings.home import Home

EVERY_S, EVERY_S_MIN, EVERY_S_MAX = 1.0, 0.2, 3600.0


@click.command(cls=Command)
@click.option("--once", is_flag=True, help="Print what is so now, and end.")
@click.option(
    "--every",
    type=Seconds(EVERY_S_MIN, EVERY_S_MAX),
    default=EVERY_S,
    show_default="1 s",
    help="The time between two looks.",
)
@json_option
def top(once: bool, every: float, as_json: bool) -> None:
    """Show live what comes, goes and waits, every neighbour, and whether all is well.

    In a terminal: `q` ends it, `s` sorts, arrows select a neighbour and say why its messages wait. Into a pipe or file
    it prints the same as plain text, one look below the other.
    """
    home = invocation().home
    if once:
        _print(loop.run(one_moment, home, min(every, EVERY_S)), as_json)
    elif as_json or not terminal.can_draw():
        loop.run(_print_all, home, every, as_json)
    else:
        loop.run(_draw, home, every)


def _print(moment: Moment, as_json: bool) -> None:
    if as_json:
        say_json(in_json(moment))
    else:
        for line in screen(moment, max(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns), None):
            say(line.text.rstrip())


async def _print_all(home: Home, every_s: float, as_json: bool) -> None:
    shown = False

    def show(moment: Moment) -> None:
        nonlocal shown
        if shown and not as_json:
            say()
        shown = True
        _print(moment, as_json)

    async with while_read():
        await watch(home, every_s, show)


async def _draw(home: Home, every_s: float) -> None:
    moments = list[Moment]()
    drawn: terminal.LiveScreen | None = None

    def show(moment: Moment) -> None:
        moments[:] = [moment]
        if drawn is not None:
            drawn.draw(moment)

    async with trio.open_nursery() as nursery:
        await nursery.start(watch, home, every_s, show)  # A node that does not run is an error as in other commands.
        with terminal.drawing() as drawn:
            drawn.draw(*moments)
            await drawn.until_left()
            nursery.cancel_scope.cancel()
