"""Opening messages for an app: a multicast's seal, a member's signed words once only, and what to say of the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from router.client.custody.arrivals import Arrival
from router.client.former_keys import FormerKey, FormerKeys
from router.client.ordering import Known
from router.client.received import Received
from router.client.said import SAID_AGAIN, Said, SaidAgain
from router.client.senders import GroupKeys
from router.client.settling import Settling
from router.client.undeliverable import UNSEALED, Undeliverable
from router.core.wire.application import ApplicationMessage, SealError, unseal
from router.core.wire.codec import Malformed
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.message import Multicast, Unicast, open_message, verify_message, without_via
from router.core.wire.reasons import Reason
from router.core.wire.renewal import Renewal
from router.core.wire.text import key_text, short
from router.core.wire.unicast_seal import BEGINS, OpenedBody


def _never_renewed(_: PublicKey) -> None:
    """Return that no source is known to be renewed."""


class Opener:
    """Opens the messages of one app, and counts those that it is given. `group_keys` finds the keys of a group; `known`
    finds ids in the app's journal; `problem` gets sentences about messages that cannot be given to the app, which are
    settled all the same; `unseal` opens what was sealed to this app, None if nothing is; `renewal_of` finds by what
    another key has taken the place of a source's."""

    def __init__(
        self,
        settling: Settling,
        group_keys: Callable[[PublicKey], GroupKeys],
        known: Known,
        problem: Callable[[str], None],
        wall_s: Callable[[], float],
        *,
        verify: bool,
        unseal: Callable[[Unicast], OpenedBody] | None = None,
        renewal_of: Callable[[PublicKey], Renewal | None] = _never_renewed,
    ) -> None:
        self._settling = settling
        self._group_keys = group_keys
        self._known = known
        self._undeliverable = Undeliverable(problem, wall_s)
        self._unseal = unseal
        self._renewal_of = renewal_of
        self._former_keys = FormerKeys(problem, wall_s)
        self._verify = verify
        self._said = Said()

    def __repr__(self) -> str:
        return f"<opener: {self._said!r}, {self._undeliverable!r}>"

    def open(self, one: Arrival) -> Received | None:
        """Open a message for the app; return None if it cannot be given to it, which is reported.

        An unreadable message is refused, so that its outcome shows this. Signed words that came before, in another
        message, are settled like those.
        """
        message = open_message(one.wire)
        group = None if isinstance(message, Unicast) else message.group
        if self._verify and not verify_message(one.wire):
            why = "its signature does not fit"
        else:
            try:
                return self._unicast(message, one) if isinstance(message, Unicast) else self._multicast(message, one)
            except SaidAgain as again:
                self._undeliverable.note(group, message.via, str(again))
                return None
            except FormerKey as error:
                why = str(error)
            except Malformed as error:
                why = UNSEALED if group is not None else f"its body is no sealed one: {error}"
            except SealError as error:
                why = f"its body cannot be opened: {error}"
        self._undeliverable.note(group, message.via, why)
        self._settling.refuse(one, Reason.PEER_REFUSED, why)
        return None

    def sender_of(self, wire: bytes) -> tuple[PublicKey, int] | None:
        """Return sender and number of a message; None if this app cannot read it."""
        message = open_message(wire)
        assert isinstance(message, Multicast)
        try:
            said = unseal(message.body, message.group, self._group_keys(message.group).keys)
        except (Malformed, SealError):
            return None
        return said.sender, said.seq

    def count_given(self, one: Arrival, received: Received) -> None:
        """Count a message as given: the next one that the app publishes to its group names it as a cause."""
        if received.group is not None and received.sender is not None:
            causes = self._group_keys(received.group).causes
            causes.given(received.id, received.expiry_min, one.header.ttl_s, received.deps)

    def _unicast(self, message: Unicast, one: Arrival) -> Received:
        source, body = message.source, message.body
        if (renewal := self._renewal_of(source)) is not None:
            self._former_keys.judge(renewal)
        said = self._unseal(message) if self._unseal is not None and body.startswith(BEGINS) else None
        seq, code, body = (None, None, body) if said is None else (said.seq, said.code, said.content)
        return Received(
            one.id,
            body,
            None,
            source,
            source,
            seq,
            (),
            code,
            message.via,
            one.at_s,
            one.redelivered,
            (),
            message.expiry_min,
            without_via(one.wire),
            partial(self._settling.finish, one),
            partial(self._settling.refuse, one),
            sealed=said is not None,
        )

    def _is_said_again(self, said: MessageId, message: MessageId) -> bool:
        """Whether another message brought these signed words before."""
        if said not in self._said and not self._known([said]):
            self._said.note(said, message)
            return False
        return not self._said.is_first(said, message)

    def _multicast(self, message: Multicast, one: Arrival) -> Received:
        group_keys = self._group_keys(message.group)
        said: ApplicationMessage | None = (
            unseal(message.body, message.group, group_keys.keys) if group_keys.keys else None
        )
        if said is not None:
            one.said = said.said
            if self._is_said_again(one.said, one.id):
                raise SaidAgain(SAID_AGAIN.format(sender=short(key_text("addr", said.sender))))
        group_keys.causes.recent.note(one.id, message.expiry_min)
        sender, seq, deps, code, body = (
            (None, None, (), None, message.body)
            if said is None
            else (said.sender, said.seq, said.deps, said.code, said.content)
        )
        return Received(
            one.id,
            body,
            message.group,
            None,
            sender,
            seq,
            deps,
            code,
            message.via,
            one.at_s,
            one.redelivered,
            message.seen,
            message.expiry_min,
            without_via(one.wire),
            partial(self._settling.finish, one),
            partial(self._settling.refuse, one),
            sealed=said is not None,
        )
