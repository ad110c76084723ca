"""Access to services for commands: the answer of a running one, and the words of their reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from router.cli.ask import ask
from router.cli.command import invocation
from router.cli.exits import Exit, Failure
from router.cli.output import note
from router.core.service.roles import Role
from router.core.wire.admin import no_service
from router.settings.home import Home

if TYPE_CHECKING:
    from router.settings.config import Config
    from router.settings.last_start import Start


def ask_service(home: Home, name: str, word: str, argument: str = "") -> Any:
    """Return the service's answer, decoded from JSON. Raise `Failure` if it is an error, else the client's errors."""
    try:
        return ask(home, "service", f"{name} {word} {argument}".rstrip())
    except Failure as failure:
        raise explained(home, name, failure) from None


def explained(home: Home, name: str, failure: Failure) -> Failure:
    """Return the failure of a question to a service; if the configuration has the service and the running node does
    not, one that says so."""
    if not str(failure).startswith(no_service(name)) or name not in _configured(home):
        return failure
    said = f"{home.config_path} names it, and the running node was started without it; start the node again"
    return Failure(failure.code, f"{no_service(name)} yet: {said}")


def _configured(home: Home) -> list[str]:
    """Return the names of the services in the home's configuration, none if that cannot be read."""
    from router.settings.config_services import instances

    config = _config(home)
    return [] if config is None else [one.name for one in instances(config.node.services)]


def know_reasons(home: Home, *, is_trusted: bool = True) -> dict[str, Mapping[str, Callable[[Any], str]]]:
    """Declare the reasons of the configured services that can be loaded; return by service's name how people read the
    fields of its events.

    Loading a module runs its code: of a home that is not trusted, which can name any module, only services of this
    installation are loaded."""
    from router.service.plugins import UnknownService, load_reasons, load_shown
    from router.settings.config import load
    from router.settings.config_services import instances
    from router.settings.config_text import ConfigError

    try:
        named = instances(load(home.config_path)[0].node.services)
    except ConfigError:
        return {}
    shown: dict[str, Mapping[str, Callable[[Any], str]]] = {}
    for one in named:
        if not (is_trusted or one.module.startswith("services.")):
            continue
        try:
            load_reasons(one.module)
            shown[one.name] = load_shown(one.module)
        except UnknownService:
            continue  # `config check` says what is wrong with it; its reasons are shown by number
    return shown


def written_settings(home: Home, name: str) -> Mapping[str, Any]:
    """Return the settings of a service as the home's configuration has them, none without a node; raise `ConfigError`
    if there is a mistake in it."""
    from router.settings.config_text import ConfigError

    if problems := config_problems(home):
        raise ConfigError(problems)
    config = _config(home)
    return {} if config is None else config.services.get(name, {})


def config_problems(home: Home) -> tuple[str, ...]:
    """Return the mistakes in the home's configuration that `config check` finds; none without a node."""
    from router.cli.preflight import rules
    from router.settings import config

    return tuple(config.check(home.config_path, rules(home))) if home.holds_node else ()


def names_of(home: Home, module: str) -> list[str]:
    """Return the names of the home's services of this module."""
    from router.settings.config_services import instances

    config = _config(home)
    return [] if config is None else [one.name for one in instances(config.node.services) if one.module == module]


def name_with_role(home: Home, role: Role) -> str:
    """Return the name of the home's service with this role; that of the service that usually has it, if none is
    configured or can be loaded."""
    return _configured_with_role(home, role) or role.advertised_as


def keeps_for_others(home: Home) -> bool:
    """Whether the home's node keeps what is published in groups that nobody here reads, for readers at other nodes: a
    core with a service that carries groups."""
    config = _config(home)
    return config is not None and config.node.role == "core" and bool(_configured_with_role(home, Role.OVERLAY))


def _configured_with_role(home: Home, role: Role) -> str:
    """Return the name of the home's service with this role, empty if none is configured or can be loaded."""
    from router.service.plugins import UnknownService, load_role
    from router.settings.config_services import instances

    config = _config(home)
    for one in instances(config.node.services) if config is not None else ():
        try:
            if load_role(one.module) is role:
                return one.name
        except UnknownService:
            continue  # `config check` says what is wrong with it
    return ""


def settings_of(home: Home, module: str) -> dict[str, Any]:
    """Return the settings of the service of this module, whatever name it has in the home's configuration; none without
    a node. Raise `ConfigError` if it cannot be read."""
    from router.settings.config import load

    if not home.holds_node:
        return {}
    config = load(home.config_path)[0]
    return dict(config.services.get(_name_in(config, module), {}))


def _config(home: Home) -> Config | None:
    """Return the configuration of the home, None if it has none or it cannot be read."""
    from router.settings.config import load
    from router.settings.config_text import ConfigError

    try:
        return load(home.config_path)[0] if home.holds_node else None
    except ConfigError:  # `config check` says what is wrong with it
        return None


def _name_in(config: Config, module: str) -> str:
    """Return the name of the service of this module in the configuration, its own if it is not there."""
    from router.settings.config_services import instances, service_name

    named = {one.module: one.name for one in instances(config.node.services)}
    return named.get(module, service_name(module))


def start_command(home: Home) -> str:
    """Return the command that starts the node of this home as it was started last; "" if the home has no node."""
    from router.settings import last_start

    return last_start.remedy(home.path) if home.holds_node else ""


def serve_with(
    module: str, settings: Mapping[str, object], again: Sequence[str], *, is_anywhere: bool, as_json: bool
) -> None:
    """Run the node of the chosen home with this service, as `router serve` does, but not without it. `settings`
    override those in the configuration, which is not changed. A home that is created now contains them, and listens on
    its owner's socket only; if the node cannot start, it is removed. `again`: the arguments with which the same
    node is started again; `is_anywhere`: whether that is so in any directory."""
    from router.settings import fresh_home
    from router.settings.last_start import Start

    with fresh_home.removed_on_error(invocation().chosen_home, lambda: note("it is removed again, as it cannot start")):
        _serve_with(module, settings, Start(again, is_anywhere), as_json=as_json)


def _serve_with(module: str, settings: Mapping[str, object], start: Start, *, as_json: bool) -> None:
    from router.service import plugins
    from router.settings.config import load
    from router.settings.config_services import NewHomeService, instances, service_name
    from router.settings.config_text import parse, text_of, toml_value

    if not invocation().chosen_home.holds_node:
        for problem in plugins.load(module).judge(settings, service_name(module)):
            raise Failure(Exit.USAGE, f"{problem.text}; nothing was made")
        resident = NewHomeService(dict(settings), is_public=False)
        invocation().chosen_home.create("edge", (), {service_name(module): resident})
    home = invocation().home_to_write
    config = load(home.config_path)[0]
    name = _name_in(config, module)
    flags = [f"services.{name}.{key}={toml_value(value)}" for key, value in settings.items()]
    if module not in {one.module for one in instances(config.node.services)}:
        written = parse(text_of(home.config_path), home.config_path.name).get("node", {}).get("services", [])
        entries = [_inline(one, toml_value) if isinstance(one, dict) else toml_value(one) for one in written]
        flags.append(f"node.services=[{', '.join([*entries, toml_value(module)])}]")
    context = click.get_current_context().find_root()
    assert isinstance(context.command, click.Group)
    serve = context.command.get_command(context, "serve")
    assert serve is not None
    context.invoke(
        serve, listen=(), verifiers=None, settings=tuple(flags), lan=False, as_json=as_json, needed=name, start=start
    )


def _inline(section: Mapping[str, object], written: Callable[[object], str]) -> str:
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}
    return f"{{{', '.join(f'{key} = {written(value)}' for key, value in values.items())}}}"
