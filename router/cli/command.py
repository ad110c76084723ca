"""What every command shares: `--home` and `--verbose` before or after its name, `--json`, and keys as arguments."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from router.settings.config import Config
    from router.settings.home import Home

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class Invocation:
    """What stands on this command line for every command."""

    home_option: str | None = None
    verbose: bool = False

    @property
    def home(self) -> Home:
        """The home, made with a commented `router.toml` on first use."""
        from router.settings.home import Home

        home = Home.chosen(self.home_option)
        home.create()
        return home

    def config(self) -> Config:
        """The configuration in force in that home; `ConfigError`."""
        from router.settings import config

        return config.load(self.home.config_path)[0]


def invocation() -> Invocation:
    """That of the command being run."""
    found: Invocation = click.get_current_context().find_root().ensure_object(Invocation)
    return found


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.find_root().ensure_object(Invocation), str(option.name), value)


def _everywhere() -> list[click.Parameter]:
    """Options of every command and group; the innermost one wins."""
    return [
        click.Option(
            ["--home", "home_option"], metavar="DIR", expose_value=False, callback=_remember,
            help="The node's directory; else ROUTER_HOME, else the user's data directory."),
        click.Option(
            ["--verbose"], is_flag=True, expose_value=False, callback=_remember,
            help="Say more; tracebacks of errors."),
    ]  # fmt: skip


class Command(click.Command):
    """One subcommand."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.params += _everywhere()

    def invoke(self, ctx: click.Context) -> Any:
        level = logging.INFO if invocation().verbose else logging.WARNING
        logging.basicConfig(level=level, format=LOG_FORMAT, stream=sys.stderr)
        return super().invoke(ctx)


class Group(click.Group):
    """A subcommand that has others."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.params += _everywhere()


def json_option(command: Function) -> Function:
    """`--json`, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON instead of text for people.")(command)
