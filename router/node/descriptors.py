"""The file descriptors this process may have open: as many as the system lets it, and a word if they are too few."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress

OTHERS_MAX = 100
"""What a node has open beside its connections: store, log, listeners, verifiers."""

log = logging.getLogger(__name__)


def make_room(connections_max: int) -> None:
    """Raise the soft limit to the hard one; warn if so many connections do not fit into it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # where the system allows less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft != resource.RLIM_INFINITY and connections_max + OTHERS_MAX > soft:
        log.warning(
            "limits.connections_max is %d, but this process may have only %d file descriptors open; lower it, or raise "
            "that limit (LimitNOFILE of the service, ulimit -Hn)", connections_max, soft,
        )  # fmt: skip
