"""The services that the configuration names: their instances, and where the folders of services are found.

`services = ["services.echo"]` runs a module under its own name; a `[[node.services]]` block gives an instance another
name, and says where it runs.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from router.core.neighbours.advertisements import SAMPLED
from router.core.neighbours.directory import CONFIG, INVITED
from router.settings.config_peers import about
from router.settings.config_text import Problem
from router.settings.keyring import NAME_FORM, NAME_PATTERN
from router.shared_packages import complete

log = logging.getLogger(__name__)

_MODULE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
ServiceSpec = Annotated[
    str, Meta(pattern=rf"^{_MODULE}(:[A-Za-z_]\w*)?\Z", extra={"form": "a module, or module:Class"})
]
InstanceName = Annotated[str, Meta(pattern=rf"^{NAME_PATTERN}\Z", extra={"form": NAME_FORM})]
DEFAULT, INSIDE, APART, BY_HAND = "default", "inside", "apart", "by-hand"
Run = Literal["default", "inside", "apart", "by-hand"]


class Instance(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A named instance of a service, so that a module can run more than once."""

    name: Annotated[InstanceName, about("Its name on this node, which its key, its state and its settings carry.")]
    module: ServiceSpec
    run: Annotated[
        Run,
        about(
            'Where it runs: "inside" the node\'s process, "apart" in a process that the node starts, restarts and '
            'ends, or "by-hand" in a process that you start. "default" is where the service itself says, else inside.'
        ),
    ] = "default"


ServiceEntry = ServiceSpec | Instance


class NewHomeService(NamedTuple):
    """A service that a new home names: its settings, and whether strangers may send to it."""

    settings: Mapping[str, object] = MappingProxyType({})
    is_public: bool = True


Residents = Mapping[str, NewHomeService]
"""The residents by their names in the `services` package."""
NOBODY: Residents = MappingProxyType({})
OF_AN_EDGE: Residents = MappingProxyType(
    {"discovery": NewHomeService(), "pubsub": NewHomeService({"mode": "leaf"}, is_public=False)}
)
OF_A_CORE: Residents = MappingProxyType(
    {"discovery": NewHomeService({"sampling": True}), "pubsub": NewHomeService({"mode": "overlay"})}
)
"""The services of a new node, by its role."""


def service_name(spec: str) -> str:
    """Return the name of a service in the configuration and for its key: echo for `services.echo:Echo`."""
    return spec.partition(":")[0].rpartition(".")[2]


def key_name(service: str) -> str:
    """Return the name under which a service's key is kept."""
    return f"service-{service}"


def instances(entries: Iterable[str | Instance]) -> tuple[Instance, ...]:
    """Return each entry of `node.services` as an instance; a module alone has its own name, and runs by default."""
    return tuple(one if isinstance(one, Instance) else Instance(name=service_name(one), module=one) for one in entries)


def broken_rules(
    entries: tuple[str | Instance, ...], public: Iterable[str], options: Iterable[str]
) -> Iterator[Problem]:
    """Yield names of services that occur twice, and unknown ones in `node.services_public` and `[services.…]`."""
    known = [one.name for one in instances(entries)]
    for at, name in enumerate(known):
        if name in (CONFIG, INVITED, SAMPLED):
            text = f'node.services: a service cannot be called "{name}", which says of a neighbour how it was learned; '
            yield Problem(("node", "services", at), f"{text}give it a [[node.services]] block with another name")
        if name in known[:at]:
            text = f'node.services names "{name}" twice; keep one, or give the other a [[node.services]] block with '
            yield Problem(("node", "services", at), f"{text}a name of its own")
    places = [(("node", "services_public"), name) for name in public]
    places += [(("services", name), name) for name in options]
    named = f"it names {', '.join(known)}" if known else "it names none"
    for path, name in places:
        if name not in known:
            text = f'{".".join(path)} is about a service "{name}" that node.services does not name; {named}'
            yield Problem(path, text)


def settings() -> Iterator[tuple[str, type[Struct]]]:
    """Yield name and settings of each service in a `services` folder. Skip one that cannot be loaded: `config check`
    says why where it is used."""
    for module, _ in folders("settings.py"):
        try:
            found = getattr(importlib.import_module(f"{module}.settings"), "Settings", None)
        except Exception as error:  # third-party code may raise anything
            log.warning("the settings of %s cannot be read: %r", module, error)
            continue
        if isinstance(found, type) and issubclass(found, Struct):
            yield service_name(module), found


def folders(part: str) -> Iterator[tuple[str, Path]]:
    """Yield module name and path of each folder of a `services` package that holds the file `part`, loading only the
    package. Every directory on Python's path may have a `services` folder."""
    seen = set[str]()
    complete("services")
    for place in importlib.import_module("services").__path__:
        for file in sorted(Path(place).glob(f"*/{part}")):
            name = file.parent.name
            if re.fullmatch(r"[A-Za-z_]\w*", name) and name not in seen:
                seen.add(name)
                yield f"services.{name}", file
