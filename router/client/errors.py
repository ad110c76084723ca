"""The errors an app may have to catch; each says what happened, with which value, and what to do."""

from __future__ import annotations

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short

NOT_BEGUN = "this connection has not begun: use `async with router.connect() as node`"


class ClientError(RouterError):
    """Any failure between an app and its node; `text` is a sentence for people."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class JournalError(ClientError):
    """An app's journal, or its state, cannot be opened, read or written; the text says why and what to do."""


class NodeUnavailable(ClientError):
    """The node cannot be reached, went away for good, or the `with` block has been left."""


class Replaced(NodeUnavailable):
    """The node runs, but another process has signed on with the same key since, and has taken this one's place."""


class Renewed(NodeUnavailable):
    """The node runs, but another key has taken the place of this app's."""


class Refused(ClientError):
    """The router refused a message. `said`: what it says of that beyond the reason's sentence. `reason.later`: the same
    message may be accepted later."""

    def __init__(self, reason: Reason, text: str = "", message: MessageId | None = None) -> None:
        whom = f"message {short(key_text('msg', message))} was refused" if message else "refused"
        said = f" ({text})" if text else ""
        super().__init__(f"{whom}, {reason.word}: {reason.sentence.rstrip('.')}{said}")
        self.reason = reason
        self.said = text
        self.message = message

    @property
    def later(self) -> bool:
        """Whether trying again later makes sense."""
        return self.reason.later


class JoinRefused(ClientError):
    """The node does not let this key join that group. `reason` is None where the node gave none."""

    def __init__(self, group: PublicKey, reason: Reason | None = None) -> None:
        why = f" ({reason.word})" if reason else ""
        text = f"the node refused to let this app join {short(key_text('group', group))}{why}"
        super().__init__(f"{text}; its operator decides who may join, and how many groups one client may have")
        self.group = group
        self.reason = reason


class NotAnswered(ClientError):
    """The node took the request but did not answer in time."""


class CannotPublish(ClientError):
    """The link of this group is for reading only: it lacks the sending key."""


class NoPrekey(ClientError):
    """The recipient's prekey did not come in time, so nothing was sealed, and nothing was sent."""

    def __init__(self, to: PublicKey, waited_s: float) -> None:
        whom = short(key_text("addr", to))
        super().__init__(
            f"no prekey of {whom} came within {waited_s:g} s, so nothing was sent: it is away, or of a version that "
            "has none; the request waits for it, so send again when it has been here, with a key that is kept "
            "(`as_name`, `--as`), or send in the open with plain=True (`router send --plain`)"
        )
        self.address = to
