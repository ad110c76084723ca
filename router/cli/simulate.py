"""`router simulate`: run the scenarios that services declare in the table of their `scenarios.py`."""

from __future__ import annotations

from typing import Any

import click

from router.cli import load, service_commands
from router.cli.command import ARGUMENTS, CommandGroup


class Scenarios(CommandGroup):
    """Finds its subcommands in the folders of services, and loads one only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._found(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._found(ctx)
        return load(cmd_name, found[cmd_name][0]) if cmd_name in found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the scenarios in the help without loading them."""
        with formatter.section("Scenarios"):
            formatter.write_dl([(name, about) for name, (_, about) in sorted(self._found(ctx).items())])

    @staticmethod
    def _found(ctx: click.Context) -> dict[str, tuple[str, str]]:
        arguments: Any = ctx.find_root().meta.get(ARGUMENTS, ())
        return service_commands.find(arguments, service_commands.SCENARIOS)


@click.group(cls=Scenarios, subcommand_metavar="SCENARIO [ARGS]...")
def simulate() -> None:
    """Run a protocol with many nodes in one process, and print its figures. Neither a node nor a network is needed.

    The nodes run the decisions that ship, on simulated time: a run depends on its seed alone.
    """
