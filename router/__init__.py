"""A key-addressed message router, and the API of apps that sign on to it: `router.connect()`.

Public names are listed here and loaded on first use, so that `import router` costs nothing.
"""

from __future__ import annotations

from router.lazy import load_by_name

TYPE_CHECKING = False  # type checkers read this name as True; `typing` itself would cost 10 ms
if TYPE_CHECKING:
    from router.client.blocking import BlockingGroup, BlockingNode, BlockingReceived, connect_blocking
    from router.client.errors import (
        CannotPublish,
        ClientError,
        JoinRefused,
        JournalError,
        NodeUnavailable,
        NoPrekey,
        NotAnswered,
        Refused,
    )
    from router.client.group import Group, Publisher
    from router.client.node import Node, connect
    from router.client.outcomes import Outcomes
    from router.client.prekeys import Prekeys, SealedError
    from router.client.received import Received
    from router.core.wire.crypto import MessageId, PublicKey, SigningKey
    from router.core.wire.errors import RouterError
    from router.core.wire.grouplink import GroupLink, new_group, parse_link
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
    "NoPrekey",
    "Node",
    "NodeUnavailable",
    "NotAnswered",
    "Outcomes",
    "Prekeys",
    "PublicKey",
    "Publisher",
    "Reason",
    "Received",
    "Refused",
    "RouterError",
    "SealedError",
    "SigningKey",
    "UnknownName",
    "connect",
    "connect_blocking",
    "key_text",
    "new_group",
    "parse_key",
    "parse_link",
]

_PLACES = {
    "router.client.blocking": "BlockingGroup BlockingNode BlockingReceived connect_blocking",
    "router.client.node": "Node connect",
    "router.client.errors": (
        "CannotPublish ClientError JoinRefused JournalError NoPrekey NodeUnavailable NotAnswered Refused"
    ),
    "router.client.group": "Group Publisher",
    "router.core.wire.crypto": "MessageId PublicKey SigningKey",
    "router.core.wire.errors": "RouterError",
    "router.core.wire.grouplink": "GroupLink new_group parse_link",
    "router.core.wire.reasons": "Reason",
    "router.core.wire.text": "BadText key_text parse_key",
    "router.settings.home": "Home HomeError",
    "router.settings.keyring": "KeyringError",
    "router.settings.names": "UnknownName",
    "router.client.outcomes": "Outcomes",
    "router.client.prekeys": "Prekeys SealedError",
    "router.client.received": "Received",
}


__getattr__ = load_by_name(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
