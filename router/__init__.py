"""A key-addressed message router, and the API of apps that sign on to it: `router.connect()`.

What is public is named here and loaded when it is first used, so that `import router` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read this name as True; `typing` itself would cost 10 ms
if TYPE_CHECKING:
    from router.client.blocking import BlockingGroup, BlockingNode, BlockingReceived, connect_blocking
    from router.client.errors import CannotPublish, ClientError, JoinRefused, NodeUnavailable, NotAnswered, Refused
    from router.client.group import Group, Publisher
    from router.client.journal import JournalError
    from router.client.node import Node, connect
    from router.client.outcomes import Outcomes
    from router.client.received import Received
    from router.core.wire.crypto import MessageId, PublicKey, SigningKey
    from router.core.wire.errors import RouterError
    from router.core.wire.grouplink import GroupLink
    from router.core.wire.reasons import Reason
    from router.core.wire.text import BadText, key_text, parse_key
    from router.settings.home import Home, HomeError
    from router.settings.keyring import KeyringError
    from router.settings.names import UnknownName

__all__ = [
    "BadText",
    "BlockingGroup",
    "BlockingNode",
    "BlockingReceived",
    "CannotPublish",
    "ClientError",
    "Group",
    "GroupLink",
    "Home",
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
    "RouterError",
    "SigningKey",
    "UnknownName",
    "connect",
    "connect_blocking",
    "key_text",
    "parse_key",
]

_PLACES = {
    "client.blocking": "BlockingGroup BlockingNode BlockingReceived connect_blocking",
    "client.node": "Node connect",
    "client.errors": "CannotPublish ClientError JoinRefused NodeUnavailable NotAnswered Refused",
    "client.group": "Group Publisher",
    "core.wire.crypto": "MessageId PublicKey SigningKey",
    "core.wire.errors": "RouterError",
    "core.wire.grouplink": "GroupLink",
    "core.wire.reasons": "Reason",
    "core.wire.text": "BadText key_text parse_key",
    "settings.home": "Home HomeError",
    "client.journal": "JournalError",
    "settings.keyring": "KeyringError",
    "settings.names": "UnknownName",
    "client.outcomes": "Outcomes",
    "client.received": "Received",
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
