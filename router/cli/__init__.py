"""The command line: the root command, which loads a subcommand's file only when it is used."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pkgutil import resolve_name
from typing import Any, NamedTuple

import click

from router.cli import service_commands, version
from router.cli.command import ARGUMENTS, CommandGroup, Invocation
from router.cli.encoding import show_what_it_can
from router.cli.exits import Exit, Interrupted, innermost, is_interrupt, report
from router.cli.streams import hold_descriptors
from router.shared_packages import complete

_PLAIN = (click.ClickException, click.Abort, BrokenPipeError, Interrupted)  # a traceback would say nothing more


class Subcommand(NamedTuple):
    """A subcommand: its place (`module:object`) and a line of help."""

    place: str
    about: str


COMMANDS: dict[str, Subcommand] = {
    "init": Subcommand("router.cli.keys:init", "Make a node: its key and a commented configuration."),
    "serve": Subcommand("router.node.command:serve", "Run the node."),
    "id": Subcommand("router.cli.keys:show_id", "Print this node's address."),
    "group": Subcommand("router.cli.groups:group", "Make, share and add groups."),
    "sub": Subcommand("router.cli.receive:sub", "Join a group and print its messages."),
    "pub": Subcommand("router.cli.publish:pub", "Publish messages to a group."),
    "send": Subcommand("router.cli.publish:send", "Send messages to one app or service."),
    "recv": Subcommand("router.cli.receive:recv", "Print the messages sent to your address."),
    "leave": Subcommand("router.cli.kept_keys:leave", "Leave a group that one of your kept keys has joined."),
    "keys": Subcommand(
        "router.cli.kept_keys:keys", "List the kept keys and the groups that each has joined; renew one."
    ),
    "peer": Subcommand("router.cli.neighbours:peer", "Add, change, list, remove, block and unblock neighbours."),
    "invite": Subcommand("router.cli.invite:invite", "Let others in by a link or QR code."),
    "status": Subcommand("router.cli.views:status", "Show the running node at a glance."),
    "top": Subcommand("router.cli.top.command:top", "Show live what comes, goes and waits, and whether all is well."),
    "peers": Subcommand("router.cli.views:peers", "Show every neighbour and app, and whether it is connected."),
    "queue": Subcommand("router.cli.views:queue", "Show how many messages wait for each recipient; drop them."),
    "groups": Subcommand("router.cli.views:groups", "Show the groups of the running node and who has joined them."),
    "health": Subcommand("router.cli.health:health", "Ask the node whether it is ready, for supervisors."),
    "service": Subcommand("router.cli.unit.command:service", "Run the node as a service of systemd."),
    "copy": Subcommand("router.cli.copy:copy", "Show whether another node runs with this node's key; keep this one."),
    "clock": Subcommand("router.cli.clock:clock", "Show whether the node trusts its clock; confirm the clock."),
    "doctor": Subcommand("router.doctor.command:doctor", "Check node, machine and network, and say how to mend them."),
    "why": Subcommand("router.why.command:why", "Explain what became of a message."),
    "backup": Subcommand("router.cli.backup:backup", "Take a snapshot of this home, also while the node runs."),
    "restore": Subcommand("router.cli.backup:restore", "Make a home of a snapshot."),
    "move": Subcommand("router.cli.move:move", "Announce to the neighbours that this node moves to another address."),
    "config": Subcommand("router.cli.config:config", "Check and show the configuration."),
    "audit": Subcommand("router.audit.command:audit", "Account for every message in event logs, with proof."),
    "ask": Subcommand("router.audit.ask.command:ask", "Ask an audit's tables a question by its name."),
    "audit-export": Subcommand(
        "router.audit.export.command:audit_export", "Copy event logs with all keys and ids replaced."
    ),
    "audit-verify": Subcommand(
        "router.audit.signing.command:audit_verify", "Check that an audit's files are those that its auditor signed."
    ),
    "simulate": Subcommand(
        "router.cli.simulate:simulate", "Run a protocol with many nodes in one process, and print figures."
    ),
    "completion": Subcommand("router.cli.completion:completion", "Print a script that completes commands in a shell."),
    "man": Subcommand("router.cli.manual:man", "Show the manual page of a command; write all of them."),
    "bench": Subcommand("router.bench.command:bench", "Measure the router on this machine."),
    "chaos": Subcommand(
        "router.chaos.command:chaos", "Kill, freeze, cut, fill and skew a fleet of nodes on this machine; count."
    ),
    "demo": Subcommand("router.demo.command:demo", "Kill and restart a core and two edges, and count messages."),
}


class Root(CommandGroup):
    """Find subcommands in `COMMANDS` and in the folders of services, and exit with the contract's codes."""

    _home_option: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entries = COMMANDS if cmd_name in COMMANDS else self._entries(ctx)
        if cmd_name not in entries:
            near = get_close_matches(cmd_name, entries, n=1)
            said = f'there is no command "{cmd_name}"'
            if near:
                raise click.UsageError(f'{said}; did you mean "{near[0]}"?', ctx)
            missing = ", ".join(service_commands.missing_modules(ctx.meta.get(ARGUMENTS, ())))
            hint = f"; it may be one of {missing}, whose folder is not in PYTHONPATH" if missing else ""
            raise click.UsageError(f"{said}{hint}.", ctx)
        return load(cmd_name, entries[cmd_name].place)

    @staticmethod
    def _entries(ctx: click.Context) -> dict[str, Subcommand]:
        """Return the commands of the router and those that services declare, without loading any of them."""
        found = service_commands.find(ctx.meta.get(ARGUMENTS, ()))
        return {**{name: Subcommand(place, about) for name, (place, about) in found.items()}, **COMMANDS}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in the help without loading them."""
        entries = self._entries(ctx)
        others = [(name, one.about) for name, one in entries.items() if name not in COMMANDS]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.about) for name, one in COMMANDS.items()])
        if others:
            with formatter.section("Commands of services"):
                formatter.write_dl(others)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; with `--verbose` anywhere on the command line, print an error's traceback, too."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            self._home_option = ctx.ensure_object(Invocation).home_option
            if not isinstance(innermost(error), _PLAIN) and ctx.ensure_object(Invocation).verbose:
                from router.core.wire.text import without_links

                click.echo(without_links("".join(traceback.format_exception(error))), err=True, nl=False)
            raise

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run as click does, but with our exit codes and error texts; `standalone_mode=False` lets errors pass."""
        if not extra.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **extra)
        hold_descriptors()
        for stream in (sys.stdout, sys.stderr):
            show_what_it_can(stream)
        try:
            code = self._run(args, prog_name or "router", **extra)
        except KeyboardInterrupt:  # a second Ctrl-C, while the first was being reported
            code = Exit.INTERRUPTED
        sys.exit(code if isinstance(code, int) else Exit.DONE)

    def _run(self, args: Sequence[str] | None, prog_name: str, **extra: Any) -> Any:
        """Run the command; return its exit code or its result."""
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
            if sys.stdout is not None:
                sys.stdout.flush()
        except Exception as error:
            return report(error, self._home_option)
        except BaseExceptionGroup as group:
            if not is_interrupt(group):
                raise
            return Exit.INTERRUPTED
        return code


def load(name: str, place: str) -> click.Command:
    """Return the command at that place (`module:object`); raise `ClickException` if a service's file fails to load."""
    try:
        if place.startswith("services."):
            complete("services")
        found = resolve_name(place)
    except Exception as error:
        if place.startswith("router."):
            raise
        said = f'the command "{name}" cannot be loaded from {place}: {type(error).__name__}: {error}'
        raise click.ClickException(f"{said}; mend that file, or take its service out of the path") from error
    assert isinstance(found, click.Command)
    return found


@click.command(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=version.show,
    help="Show the version and exit; with --json also those of Python, LMDB, PyNaCl, libsodium and OpenSSL.",
)
@click.option(version.AS_JSON, is_flag=True, expose_value=False, hidden=True, callback=version.refuse_alone)
def main() -> None:
    """Messages between keys: every component is a public key, and nothing accepted is lost.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no node is running, 4 refused, 5 timed out, 130
    interrupted before it was done.
    """
