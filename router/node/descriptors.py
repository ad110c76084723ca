"""The limit of open file descriptors of this process: raised as far as possible, with a warning if it is too low."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress

from router.core.wire.errors import RouterError

LEAST = 64
"""Fewest file descriptors with which a node starts: without connections it has some 30 open."""
OTHERS_MAX = 100
"""File descriptors of a node besides its connections: store, log, listeners, verifiers."""

log = logging.getLogger(__name__)


def room(descriptors: int, listeners: int) -> int:
    """Return how many connections each listener may have, so that store and event log always have a descriptor; a
    quarter is for local apps."""
    return max(1, min(descriptors - OTHERS_MAX, descriptors * 3 // 4) // max(1, listeners))


class TooFewDescriptors(RouterError):
    """This process may not open as many files as a node needs."""


def raise_limit() -> int:
    """Raise the soft limit to the hard one, and return it; raise `TooFewDescriptors` if no node can run with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the system may allow less than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        said = f"this process may have only {soft} file descriptors open, and a node needs {LEAST} at least"
        raise TooFewDescriptors(f"{said}; raise that limit (LimitNOFILE of the service, ulimit -Hn), best to 65536")
    return soft


def make_room(connections_max: int, listeners: int) -> int:
    """Raise the soft limit to the hard one, and return how many connections each listener may have: `connections_max`,
    or fewer, with a warning."""
    soft = raise_limit()
    allowed = room(soft, listeners)
    if soft == resource.RLIM_INFINITY or connections_max <= allowed:
        return connections_max
    log.warning(
        "limits.connections_max is %d, but this process may have only %d file descriptors open: it counts as "
        "%d for each listener until the next start. Lower it, or raise that limit (LimitNOFILE of the service, "
        "ulimit -Hn)",
        connections_max,
        soft,
        allowed,
    )
    return allowed
