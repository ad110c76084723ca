"""The base of services: `Service` and `Received`, or the values of `router.service.contract` for rules.

Public names are listed here and loaded on first use, so that a service's settings cost no more than they need.
"""

from __future__ import annotations

from router.lazy import load_by_name

TYPE_CHECKING = False  # type checkers read this name as True
if TYPE_CHECKING:
    from router.client.received import Received
    from router.disk.state.environment import StateError
    from router.service.host import Place, Service
    from router.service.plugins import UnknownService, load
    from router.service.running import key_of, run

__all__ = ["Place", "Received", "Service", "StateError", "UnknownService", "key_of", "load", "run"]

_PLACES = {
    "router.client.received": "Received",
    "router.service.host": "Place Service",
    "router.service.plugins": "UnknownService load",
    "router.service.running": "key_of run",
    "router.disk.state.environment": "StateError",
}

__getattr__ = load_by_name(__name__, _PLACES)
