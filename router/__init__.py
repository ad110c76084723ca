"""A key-addressed message router, and the API of apps that sign on to it: `router.connect()`.

What is public is named here and loaded when it is first used, so that `import router` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read this name as True; `typing` itself would cost 10 ms
if TYPE_CHECKING:
    from .blocking import BlockingGroup, BlockingNode, BlockingReceived, connect_blocking
    from .client import Node, connect
    from .client_errors import CannotPublish, ClientError, JoinRefused, NodeUnavailable, NotAnswered, Refused
    from .client_group import Group, Publisher
    from .core.crypto import MessageId, PublicKey, SigningKey
    from .core.grouplink import GroupLink
    from .core.reasons import Reason
    from .handover import Batch
    from .home import HomeError
    from .journal import JournalError
    from .keyring import KeyringError
    from .outcomes import Outcomes
    from .received import Received

__all__ = [
    "Batch",
    "BlockingGroup",
    "BlockingNode",
    "BlockingReceived",
    "CannotPublish",
    "ClientError",
    "Group",
    "GroupLink",
    "HomeError",
    "JoinRefused",
    "JournalError",
    "KeyringError",
    "MessageId",
    "Node",
    "NodeUnavailable",
    "NotAnswered",
    "Outcomes",
    "PublicKey",
    "Publisher",
    "Reason",
    "Received",
    "Refused",
    "SigningKey",
    "connect",
    "connect_blocking",
]

_PLACES = {
    "blocking": "BlockingGroup BlockingNode BlockingReceived connect_blocking",
    "client": "Node connect",
    "client_errors": "CannotPublish ClientError JoinRefused NodeUnavailable NotAnswered Refused",
    "client_group": "Group Publisher",
    "core.crypto": "MessageId PublicKey SigningKey",
    "core.grouplink": "GroupLink",
    "core.reasons": "Reason",
    "handover": "Batch",
    "home": "HomeError",
    "journal": "JournalError",
    "keyring": "KeyringError",
    "outcomes": "Outcomes",
    "received": "Received",
}


def _load(place: str, name: str) -> object:
    from pkgutil import resolve_name

    return resolve_name(f"{__name__}.{place}:{name}")


def __getattr__(name: str) -> object:
    for place, names in _PLACES.items():
        if name in names.split():
            found = globals()[name] = _load(place, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
