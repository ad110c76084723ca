"""Shared parts of all commands: `--home` and `--verbose` before or after the name, `--json`, and keys as arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import augment_usage_errors

from router.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from router.settings.home import Home

ARGUMENTS = "router.arguments"
"""Where the root command's context keeps the arguments of the command line."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class Invocation:
    """The options that every command takes."""

    home_option: str | None = None
    verbose: bool = False

    @property
    def home(self) -> Home:
        """Return the home of an existing node, for a command that changes no file in it; if there is none, raise
        `Failure` with the command that makes one."""
        home = self.chosen_home
        if home.holds_node:
            return home
        home.check_key()  # a store without its key needs another remedy
        raise Failure(Exit.NO_NODE, f"no node at {home.path}: `router init` makes one")

    @property
    def home_to_change(self) -> Home:
        """Return `home` for a command that writes to it. Raise `StoreError` if this program does not read its
        format."""
        home = self.home
        home.check_format()
        return home

    @property
    def home_to_write(self) -> Home:
        """Return the home for a command that writes to it; on first use make home and key, and say so."""
        from router.cli.output import note
        from router.core.wire.text import key_text
        from router.settings import keyring
        from router.settings.config_services import OF_AN_EDGE

        home = self.chosen_home
        is_new = not home.holds_node
        home.create(residents=OF_AN_EDGE)
        if is_new:
            key = keyring.load_or_create(home, keyring.NODE)
            note(f"there was no node at {home.path}: made one, {key_text('addr', key.public)}")
        return home

    def keeps_key(self, name: str) -> bool:
        """Whether the chosen home keeps a key of that name; none is made."""
        from router.settings import keyring

        return name in keyring.names(self.home)

    @property
    def chosen_home(self) -> Home:
        """Return the chosen home, whether or not a node exists there."""
        from router.settings.home import Home

        return Home.chosen(self.home_option)


def invocation() -> Invocation:
    """Return the invocation of the command that is running."""
    found: Invocation = click.get_current_context().find_root().ensure_object(Invocation)
    return found


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.find_root().ensure_object(Invocation), str(option.name), value)


def _everywhere() -> list[click.Parameter]:
    """Add the options that every command and group takes; the value given innermost wins."""
    return [
        click.Option(
            ["--home", "home_option"],
            metavar="DIR",
            expose_value=False,
            callback=_remember,
            help="The node's directory. Default: ROUTER_HOME, or the user's data directory.",
        ),
        click.Option(
            ["--verbose"],
            is_flag=True,
            expose_value=False,
            callback=_remember,
            help="Log more, and show the tracebacks of errors.",
        ),
    ]


class Command(click.Command):
    """A subcommand, with the shared options and logging to standard error."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.params += _everywhere()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with augment_usage_errors(ctx):  # so that the help of this command is named
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, with its log on standard error, or in the journal where that leads there."""
        import logging

        from router.actors.process_log import log_to
        from router.cli.signals import as_ctrl_c
        from router.settings import core_dumps

        core_dumps.forbid()
        log_to(logging.INFO if invocation().verbose else logging.WARNING)
        with as_ctrl_c():
            return super().invoke(ctx)


class CommandGroup(click.Group):
    """A subcommand that has subcommands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.params += _everywhere()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with augment_usage_errors(ctx):
            return super().parse_args(ctx, args)


def json_option(command: Function) -> Function:
    """Add `--json` to the command, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)
