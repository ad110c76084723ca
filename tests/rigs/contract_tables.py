"""Draw the events and deeds of services as tables for the documents, from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from types import ModuleType

from msgspec import Struct

from router.core.service.roles import Role
from router.core.wire.heard import Heard
from router.service import contract
from router.service.event_failures import sentence_of
from router.service.roles import discovery, overlay
from router.service.verbs.verb import Deed

ROLES = {Role.OVERLAY: overlay, Role.FINDER: discovery}
EVENTS, DEEDS = ("heard", "when", Heard), ("deed", "what it does", Deed)
Kind = tuple[str, str, type[Struct]]
"""The headings of a table, and the base of the classes in it."""


def of_every_service(kind: Kind) -> str:
    """Return the table of what every service may hear or do."""
    name, meaning, base = kind
    return _table((name, meaning), ([_signature(one), _sentence(one)] for one in _classes(contract, base)))


def of_roles(kind: Kind) -> str:
    """Return the table of what only services with a role hear or do: first what several roles have in common."""
    name, meaning, base = kind
    roles = dict[type[Struct], list[str]]()
    for role, module in ROLES.items():
        for one in _classes(module, base):
            roles.setdefault(one, []).append(f"`{role}`")
    ordered = sorted(roles, key=lambda one: (-len(roles[one]), [*ROLES].index(Role(roles[one][0].strip("`")))))
    return _table(
        (name, "role", meaning), ([_signature(one), ", ".join(roles[one]), _sentence(one)] for one in ordered)
    )


def events() -> list[type[Heard]]:
    """Return the class of each event of the contract and of the roles."""
    found = dict.fromkeys(one for module in (contract, *ROLES.values()) for one in _classes(module, Heard))
    return [one for one in found if issubclass(one, Heard)]


def of_failures() -> str:
    """Return the table of what becomes of each event on which the rules fail."""
    kinds = events()
    rows = [[f"`{one.__name__}`", sentence_of(one)] for one in kinds]
    return _table(("if the rules fail on", "then"), [*rows, ["the news of a verb of your own", sentence_of(Heard)]])


def _classes(module: ModuleType, base: type[Struct]) -> list[type[Struct]]:
    """Return the classes that a module defines, in their order, and then those that it takes from the verbs."""
    found = [
        one for one in vars(module).values() if isinstance(one, type) and issubclass(one, base) and one is not base
    ]
    return sorted(found, key=lambda one: one.__module__ != module.__name__)


def _signature(kind: type[Struct]) -> str:
    return f"`{kind.__name__}({', '.join(kind.__struct_fields__)})`"


def _sentence(kind: type[Struct]) -> str:
    """Return the docstring of a class in one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split())


def _table(heads: Sequence[str], rows: Iterable[list[str]]) -> str:
    lines = [_line(heads), "|---" * len(heads) + "|"]
    lines += [_line([cell.replace("|", "\\|") for cell in row]) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
