"""The state that the deciding parts of a router share, for tests of one part."""

from __future__ import annotations

from typing import Any

from rigs.one_router import ME
from router.core.control.speaker import Speaker
from router.core.neighbours.book import Book
from router.core.neighbours.directory import Directory
from router.core.routing.arrivals import Arrivals
from router.core.routing.duplicate_index import Index
from router.core.routing.effects import Pending
from router.core.routing.groups import Groups
from router.core.routing.kernel import Kernel
from router.core.routing.limits import CoreLimits
from router.core.routing.links import Links
from router.core.routing.queues import RecipientQueues
from router.core.routing.rejection_log import RejectionLog
from router.core.routing.routes import Routes
from router.core.routing.seen import Seen


def kernel(directory: Directory | None = None, **given: Any) -> Kernel:
    """Return a kernel of empty parts, but for those given by name."""
    known, limits, pending = directory or Directory(ME.public), CoreLimits(), Pending()
    parts: dict[str, Any] = {
        "key": ME, "directory": known, "book": Book(limits.learned_max), "links": Links(), "groups": Groups(),
        "queues": RecipientQueues(limits.queues), "routes": Routes(limits.routes, known.rank), "seen": Seen(1000),
        "index": Index(limits.index, 0, {}, known.met), "arrivals": Arrivals(1), "pending": pending,
        "rejections": RejectionLog(known.me, pending, limits.rejections), "speaker": Speaker(ME, pending),
        "limits": limits,
    }  # fmt: skip
    return Kernel(**{**parts, **given})
