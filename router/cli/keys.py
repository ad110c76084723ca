"""`router init` and `router id`: the node's own key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

import click

from router.cli import qr
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, hint, note, say, say_json
from router.core.wire.address import AddressSource, parse_address, refusal_of
from router.core.wire.text import key_text
from router.settings import config, config_services, keyring
from router.settings.config_services import OF_A_CORE, OF_AN_EDGE, NewHomeService, Residents
from router.settings.config_text import toml_value
from router.settings.home import Home
from router.settings.keyring import NAME_FORM, NAME_PATTERN
from router.transport import contract as transport

RESIDENTS: Mapping[config.Role, Residents] = {"edge": OF_AN_EDGE, "core": OF_A_CORE}
"""The services of a new node."""
APART = NewHomeService(is_public=False)
"""A service that is asked for by name: strangers may not send to it."""
EVERYWHERE = '"tls://0.0.0.0:4100"'


@click.command(cls=Command)
@click.option(
    "--role",
    type=click.Choice(["edge", "core"]),
    help="An edge node serves its owner's apps, and refuses what nobody reads; a core node serves other nodes as well, "
    "and looks for readers among them.",
)
@click.option(
    "--listen",
    multiple=True,
    metavar="URL",
    help="The URL to listen on: tls://HOST:PORT; HOST 0.0.0.0 is every interface. Repeatable.",
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="URL",
    help="The URL at which others reach it, for its link and its invitations: tls://HOST:PORT. Repeatable.",
)
@click.option("--name", default="", help="The name by which its neighbours see it, like laptop.")
@click.option(
    "--service", "services", multiple=True, metavar="NAME", help="A service to run as well, like capd. Repeatable."
)
@json_option
def init(
    role: str | None,
    listen: tuple[str, ...],
    advertise: tuple[str, ...],
    name: str,
    services: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a node: its key and a commented configuration. Print its address.

    A key or configuration that exists already stays as it is.
    """
    wanted = _Wanted(role, listen, advertise, name, services)
    _check(wanted)
    home = invocation().chosen_home
    kind = cast(config.Role, role or "edge")
    residents = {**RESIDENTS[kind], **{one: RESIDENTS[kind].get(one, APART) for one in services}}
    had_key, is_new = home.holds_node, home.create(kind, listen, residents, advertise, name)
    settings, _ = config.load(home.config_path)
    urls = _urls(settings)
    _check_stands(wanted, settings, home.config_path)
    address = keyring.load_or_create(home, keyring.NODE).public
    if as_json:
        say_json({"address": address, "role": settings.node.role, "home": str(home.path), "created": is_new})
        return
    if said := _there_before(home, had_key, is_new):
        note(said)
    say(key_text("addr", address))
    facts(
        [
            ("role", settings.node.role),
            ("listening", ", ".join(urls) or "for apps of this machine only"),
            ("configuration", home.config_path),
            ("key", home.key_path),
        ]
    )
    if urls and all("//127.0.0.1:" in url or "//localhost:" in url or "//[::1]:" in url for url in urls):
        hint(f"other machines cannot reach it there; for that, write listen = [{EVERYWHERE}] into {home.config_path}")


def _there_before(home: Home, had_key: bool, is_new: bool) -> str:
    """Return what of the node was there before the command, which stays as it is; "" if nothing was."""
    if had_key:
        key_stays = f"the key of a node was at {home.path} already and stays; {home.config_path.name} is new"
        both_stay = f"a node was at {home.path} already: its key and {home.config_path.name} stay as they are"
        return key_stays if is_new else both_stay
    return "" if is_new else f"{home.config_path} was there already and stays; the key is new"


class _Wanted(NamedTuple):
    """The options for the configuration of a new node; an existing one must say the same."""

    role: str | None
    listen: tuple[str, ...]
    advertise: tuple[str, ...]
    name: str
    services: tuple[str, ...]


def _urls(settings: config.Config) -> tuple[str, ...]:
    """Return the URLs at which the node listens for others than the owner's apps."""
    return tuple(url for url in settings.node.listen if url != config.OWNER_URL)


def _check(wanted: _Wanted) -> None:
    """End the command at a URL, name or service that no node can have."""
    for url in (*wanted.listen, *wanted.advertise):
        transport.check(url)
    for url in wanted.advertise:
        if refused := refusal_of(parse_address(url), AddressSource.OPERATOR, on_loopback=True):
            raise Failure(Exit.USAGE, f"--advertise {url}: {refused[1]}")
    if wanted.name and not re.fullmatch(NAME_PATTERN, wanted.name):
        raise Failure(Exit.USAGE, f'--name "{wanted.name}" is no name; write {NAME_FORM}')
    _check_services(wanted.services)


def _check_stands(wanted: _Wanted, settings: config.Config, path: Path) -> None:
    """End the command if the configuration there, which stays as it is, says otherwise than the options."""
    for key, value, stands in (
        ("listen", wanted.listen, _urls(settings)),
        ("advertise", wanted.advertise, settings.node.advertise),
        ("name", wanted.name, settings.node.name),
    ):
        if value and value != stands:
            said = f"{path} says {key} = {toml_value(stands)} already"
            raise Failure(Exit.USAGE, f"{said}; change that line to make it {toml_value(value)}")
    if missing := set(wanted.services) - {one.name for one in config_services.instances(settings.node.services)}:
        said = f"{path} stands already, and its node.services does not name {', '.join(sorted(missing))}"
        modules = ", ".join(f'"services.{one}"' for one in sorted(missing))
        raise Failure(Exit.USAGE, f"{said}; add {modules} to the line services = [...] of its section [node]")
    if wanted.role is not None and wanted.role != settings.node.role:
        said = f'{path} says role = "{settings.node.role}" already'
        raise Failure(Exit.USAGE, f"{said}; change that line to make it a {wanted.role} node")


def _check_services(names: tuple[str, ...]) -> None:
    """End the command at a name that no service of this program has."""
    known = [name for name, _ in config_services.settings()]
    for one in names:
        if one not in known:
            raise Failure(Exit.USAGE, f'--service "{one}" is none of {", ".join(known)}; name one of them')


@click.command("id", cls=Command)
@click.option("--link", is_flag=True, help="Print the link by which others make this node their neighbour.")
@qr.options
@json_option
def show_id(link: bool, draw: qr.Drawing, as_json: bool) -> None:
    """Print this node's address, whether it runs or not.

    Its link holds the address and where others reach the node; they take it by `router peer add LINK`. It is no secret.
    """
    home = invocation().home
    key = keyring.load(home, keyring.NODE)
    address, text = key.public, ""
    if link or draw.is_wanted:
        from router.cli.node_link import own_link

        text = own_link(key, home, config.load(home.config_path)[0])
        qr.show(text, draw, leave_out="addresses in node.advertise", on_terminal=not as_json)
    if as_json:
        more = {"link": text} if text else {}
        say_json({"address": address, "text": key_text("addr", address), "home": str(home.path), **more})
    else:
        say(text or key_text("addr", address))
