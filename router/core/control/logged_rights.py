"""The event `config` about a neighbour: what it may do here, and the limits that are in force."""

from __future__ import annotations

from router.core.log import events as ev
from router.core.neighbours.directory import Neighbour
from router.core.routing.kernel import Kernel
from router.core.wire.now import Now


def grants_of(one: Neighbour | None) -> frozenset[str]:
    """Return the rights of a neighbour; none if there is none, or it is blocked."""
    return one.grants if one is not None and not one.blocked else frozenset()


def log_rights(kernel: Kernel, key: bytes, lost: frozenset[str], now: Now) -> None:
    """Log the rights of a key, and those that it `lost`. Each such event repeats the present limits, because readers of
    a log use the last one."""
    new = kernel.directory.neighbours.get(key)
    fields: tuple[tuple[str, str | int | bytes | bool], ...] = (
        *kernel.limits.told(),
        ("peer", key),
        ("grants", ",".join(sorted(grants_of(new)))),
        ("revoked", ",".join(sorted(lost))),
        ("uplink", new is not None and new.uplink),
        ("blocked", new is not None and new.blocked),
        ("removed", new is None),
    )
    kernel.pending.changes.events.append(ev.RouterChange(now.wall_ns, now.mono_ns, "config", fields))
