"""The protocol between a node and its clients, by its name in the configuration: an encoding of messages, a revision of
notification, and whether a reject ends the connection. The bytes do not show which it is, so it is never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..messages.signed_message import Cip29ffe0e, Dmq04, Dmq05, Encoding
from . import message_submission, notification
from .message_submission import MessageSubmission
from .notification import Notification


class Revision(NamedTuple):
    """A revision of CIP-137. `ends_early`: a reject or the signer's MsgDone ends the connection (seed 001; F5);
    `submissions`: what nodes speak with each other, by the version agreed on (F7)."""

    name: str
    encoding: Encoding
    notification: Notification
    ends_early: bool = False
    submissions: Mapping[int, MessageSubmission] = message_submission.VERSIONS


_OF_SEEDS = {1: message_submission.SEED}
"""The seeds name no version; in theirs as in version 1 the initiator provides."""
REVISIONS = {
    one.name: one
    for one in (
        Revision("dmq-0.5", Dmq05(), notification.REVISIONS["dmq"]),
        Revision("dmq-0.4", Dmq04(), notification.REVISIONS["dmq"]),
        Revision("cip-29ffe0e", Cip29ffe0e(), notification.REVISIONS["cip-29ffe0e"], submissions=_OF_SEEDS),
        Revision("overview-2025-04", Cip29ffe0e(), notification.REVISIONS["overview-2025-04"], True, _OF_SEEDS),
    )
}
"""All revisions; the first is the deployed one, and the default."""
