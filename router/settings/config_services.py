"""The services that the configuration names: what they are called, and that every name stands for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta

from router.settings.config_text import Problem

_MODULE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
ServiceSpec = Annotated[
    str, Meta(pattern=rf"^{_MODULE}(:[A-Za-z_]\w*)?\Z", extra={"form": "a module, or module:Class"})
]


def service_name(spec: str) -> str:
    """What a service is called, in the configuration and among the keys: `services.echo:Echo` is echo."""
    return spec.partition(":")[0].rpartition(".")[2]


def broken_rules(specs: tuple[str, ...], public: Iterable[str], options: Iterable[str]) -> Iterator[Problem]:
    """Each service has a name of its own; `node.services_public` and `[services.…]` name no others."""
    known = [service_name(spec) for spec in specs]
    for at, name in enumerate(known):
        if name in known[:at]:
            yield Problem(("node", "services"), f'node.services names "{name}" twice; keep one')
    places = [(("node", "services_public"), name) for name in public]
    places += [(("services", name), name) for name in options]
    named = f"it names {', '.join(known)}" if known else "it names none"
    for path, name in places:
        if name not in known:
            text = f'{".".join(path)} is about a service "{name}" that node.services does not name; {named}'
            yield Problem(path, text)
