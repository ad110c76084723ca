"""`router config`: find mistakes in the configuration, and show the settings in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import click

from router.cli.ask import ask
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.guests import guest_problems, guests_beside
from router.cli.output import columns, note, say, say_json
from router.cli.preflight import faults_beside_rules, rules, unusable_keys, warnings
from router.client.errors import NodeUnavailable
from router.core.wire.crypto import PublicKey
from router.core.wire.text import key_text
from router.service import plugins
from router.settings import config as configuration
from router.settings.config import Config
from router.settings.config_services import instances
from router.settings.config_text import ConfigError, Setting, parse, toml_value
from router.settings.home import Home


@click.group("config", cls=CommandGroup)
def config() -> None:
    """Check and show the configuration."""


@config.command("check", cls=Command)
@json_option
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Find every mistake in `router.toml` and the keys.

    Exit code 2 if there is one, with a sentence for each; `router serve` would refuse them too. Settings that are valid
    but probably not intended are reported with exit code 0, and so are guests of the running node that the file does
    not name."""
    home = invocation().home
    path = home.config_path
    problems = configuration.check(path, (*rules(home), lambda config: unusable_keys(home, config)))
    problems = problems or configuration.check(path, (faults_beside_rules,))
    warned = [] if problems else warnings(configuration.load(path)[0])
    if as_json:
        say_json({"file": str(path), "ok": not problems, "problems": problems, "warnings": warned})
    elif not problems:
        found = f"{path} can be used, but:" if warned else f"{path} is in order"
        say(found if path.exists() else f"{configuration.no_file(path)}{'; but:' if warned else ''}")
        for said in warned:
            note(said)
        _tell_of_guests(home)
    for problem in problems if not as_json else ():
        note(problem)
    if problems:
        ctx.exit(Exit.USAGE)


def _tell_of_guests(home: Home) -> None:
    """Print the grants of the running node to guests that the file does not name."""
    with suppress(NodeUnavailable):
        facts = ask(home, "status")["guests"]
        for said in filter(None, (*guest_problems(facts), guests_beside(facts))):
            note(said)


@config.command("show", cls=Command)
@click.argument("prefix", default="")
@json_option
def show(prefix: str, as_json: bool) -> None:
    """Show the settings in force and where each came from.

    PREFIX (`link`, `store.durability`) chooses some.
    """
    found, origins = configuration.load(invocation().home.config_path)
    rows = [*configuration.show(found, origins), *_defaults_of_services(found)]
    rows = [one for one in rows if one.name.startswith(prefix)]
    if not rows:
        raise Failure(Exit.USAGE, f'no setting begins with "{prefix}"; `router config show` lists all')
    if as_json:
        say_json([{"name": one.name, "value": one.value, "origin": one.origin, "about": one.about} for one in rows])
    else:
        columns(("SETTING", "VALUE", "FROM"), [(one.name, _value(one.value), one.origin) for one in rows], "")


def _defaults_of_services(found: Config) -> Iterator[Setting]:
    """Yield the defaults of the services' settings; those that the file sets are listed among the other settings."""
    for one in instances(found.node.services):
        yield from plugins.load(one.module).defaults(found.services.get(one.name, {}), one.name)


def overrides(pairs: tuple[str, ...]) -> dict[str, object]:
    """Parse `--set section.name=value` into settings by name; a value that is not TOML is taken as text."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and section and key):
            raise click.BadParameter(f'"{pair}" is not section.name=value, like link.ping_s=10', param_hint="--set")
        found[name.strip()] = _read(text.strip())
    return found


def _read(text: str) -> object:
    try:
        value: object = parse(f"value = {text}", "--set")["value"]
    except ConfigError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _value(value: object) -> str:
    match value:
        case PublicKey():
            return key_text("addr", value)
        case bool() | int() | float() | str() | tuple():
            return toml_value(value)
    return json.dumps(value, default=str)
