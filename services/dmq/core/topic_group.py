"""The group of routers that carries a topic: what is published there, what is heard there, and what is handed in by a
unicast.

A message that a client or a peer has brought is published as it is, in a multicast that is the same whoever publishes
it, so it is heard once. What was heard is judged like a peer's, at once: the verdict commits with the fact that it was
heard. A unicast is a submission, `[0, message]` or the message alone, and is answered `[1]` or `[2, reason]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from router.service import contract as c
from services.dmq import reasons

from . import notes
from .admission import Admission, AdmissionVerdict, FromGroup, FromUnicast
from .holdings import Holdings
from .mempool import Row
from .messages.fault import Fault, Rejected
from .messages.signed_message import Encoding, SignedMessage
from .notes import Numbered, id_of
from .protocols import submission
from .stake.source import moment_of
from .turned_away import TurnedAway

JOINED = b"group"
"""The key of the name of the group that was joined last."""
JOINED_KEY = b"group key"
"""The key of that group's own key, by which it is left when its name has come to stand for another group, or none."""
TAG = "group "
"""How the tag of a message begins that is published; its id follows, and its number if it is owed to the group."""
TTL_S = 1800
"""How long a router keeps a message for whoever is away: as long as one lives."""
JOIN_TAG = "join of the topic's group"
WAIT_FOR = frozenset((Fault.NOT_INITIALIZED, Fault.MEMPOOL_FULL, Fault.DISK_FULL))
"""Faults of the node, not of the message: its router keeps the group's messages until they can be taken."""
NOBODY_MISSES = frozenset((Reason.DUPLICATE, Reason.NO_SUBSCRIBERS, Reason.EXPIRY_PASSED))
"""Why a message is not published although nothing is wrong: another has published it, nobody else takes part, or its
time is over."""
NOBODY = "nobody else has joined it"


class TopicGroup:
    """The group of this name; without a name there is none. `may_publish`: False while its link is for reading only;
    `is_joined`: whether this node takes part in it, as its router says."""

    def __init__(
        self, name: str, encoding: Encoding, admission: Admission, holdings: Holdings, turned_away: TurnedAway
    ) -> None:
        self.name = name
        self.may_publish = True
        self.is_joined = False
        self._joined_key = b""
        self._not_joined = ""
        self._not_published = ""
        self._warned = ""
        self.published = 0
        self.heard = 0
        self.duplicates = 0
        self.rejected: Counter[str] = Counter()
        self._owed = set[int]()
        self._done: list[Numbered] = []
        self._encoding = encoding
        self._admission = admission
        self._holdings = holdings
        self._turned_away = turned_away

    def __repr__(self) -> str:
        return f"<TopicGroup {self.name or 'without a name'}: {self.published} published, {self.heard} heard>"

    @property
    def problem(self) -> str:
        """Return why this node does not take part, or did not publish the latest message; "" if nothing is wrong."""
        return self._not_joined or self._not_published

    def started(self, kept: Mapping[bytes, bytes]) -> Iterator[c.Deed]:
        """Join the group, and leave the one that an earlier start has joined, if that was another."""
        before = kept.get(JOINED, b"").decode()
        if before != self.name:
            yield c.Put(JOINED, self.name.encode() or None)
            yield c.Put(JOINED_KEY, None)
            if before:
                yield c.Leave(kept.get(JOINED_KEY, b"").hex() or before)
        self._joined_key = kept.get(JOINED_KEY, b"") if before == self.name else b""
        if self.name:
            yield c.Join(self.name, raw=True, tag=JOIN_TAG)

    def joined(self, heard: c.Joined) -> Iterator[c.Deed]:
        """Record whether this node takes part in the group, and tell the operator when it does not, or does again."""
        mended, self._warned = self._warned, ""
        self.is_joined, self._not_joined = not heard.error, heard.error
        if heard.error:
            self._warned = f"it does not take part in the group {self.name}: {heard.error}"
            yield c.Warn(self._warned)
            return
        self.may_publish, self._not_published = heard.may_publish, ""
        former, self._joined_key = self._joined_key, bytes(heard.group or b"")
        if former != self._joined_key:
            yield c.Put(JOINED_KEY, self._joined_key)
            if former:
                yield c.Leave(former.hex())
        if mended:
            yield c.Inform(f"it takes part in the group {self.name}", mended)

    def publish(self, verdict: AdmissionVerdict) -> Iterator[c.Deed]:
        """Publish what was taken, unless it came by the group. It is owed to the group, unless the link is known to be
        for reading only; then this only finds out whether it still is."""
        row = verdict.row
        if self.name and row is not None and not isinstance(verdict.source, FromGroup):
            message, until_s, tag = verdict.message, int(row.expires_at), TAG + row.id.hex()
            if self.may_publish:
                self._owed.add(row.number)
                tag += f" {row.number}"
            yield c.Publish(message.wire, self.name, TTL_S, tag, until_s, once=True)

    @property
    def has_news(self) -> bool:
        """Whether the router has messages for the group of which the log was not told."""
        return bool(self._done)

    def settled(self, taken: Sequence[Row]) -> tuple[list[Row], list[Row], Iterator[c.Deed]]:
        """Return which of the messages that were taken are owed to the group, which are not, and the events of those
        that the router has meanwhile."""
        owed, self._owed = self._owed, set()
        done, self._done = self._done, []
        events = notes.published(done, source_text(self.name))
        return [row for row in taken if row.number in owed], [row for row in taken if row.number not in owed], events

    def sent(self, heard: c.Sent) -> Iterator[c.Deed]:
        """Take what became of a message that was to be published."""
        if not heard.tag.startswith(TAG):
            return
        own_id, _, number = heard.tag.removeprefix(TAG).partition(" ")
        one = Numbered(int(number), bytes.fromhex(own_id)) if number else None
        is_unmade = not any(heard.id)
        self.may_publish = not (heard.refused is Reason.NOT_AUTHORISED and is_unmade)
        if heard.refused is None:
            self.published += 1
        if one is not None and heard.refused in (None, Reason.DUPLICATE):
            self._done.append(one)
        elif one is not None and heard.refused is not None:
            yield notes.unpublished(one, source_text(self.name), heard.refused, heard.text)
        if heard.refused is None or heard.refused in NOBODY_MISSES or not self.may_publish:
            self._not_published = NOBODY if heard.refused is Reason.NO_SUBSCRIBERS else ""
            if heard.refused is None and self._warned:
                mended, self._warned = self._warned, ""
                yield c.Inform(f"messages are published in the group {self.name} again", mended)
            return
        if one is None:
            fields = {"group": self.name, "detail": heard.text}
            yield c.LogEvent("dmq_unpublished", id_of(bytes.fromhex(own_id)), heard.refused, fields)
        if heard.text not in (self._not_joined, self._not_published):
            self._warned = f"messages are not published in the group {self.name}: {heard.text}"
            yield c.Warn(self._warned)
        self._not_published = heard.text

    def came(
        self, heard: c.Message, now: c.Now, *, may_judge: bool
    ) -> Generator[c.Deed, None, AdmissionVerdict | None]:
        """Judge what was heard in the group, or handed in by a unicast; return the verdict if it was taken."""
        if heard.source is None and self._not_published == NOBODY:
            self._not_published = ""
        if not may_judge:
            yield c.Refuse(reasons.STAKE_MISSING)
            return None
        body = heard.body
        if heard.source is not None and body.startswith(submission.SUBMITS):
            body = body[len(submission.SUBMITS) :]
        try:
            message = self._encoding.read(body)
        except Malformed as error:
            yield from self._unreadable(heard, str(error))
            return None
        source = FromGroup(self.name) if heard.source is None else FromUnicast(heard.source)
        verdict = self._admission.judge_here(source, message, moment_of(now))
        if verdict.rejected is not None:
            yield from self._rejected(heard, message, verdict.rejected, now)
            return None
        self.heard += heard.source is None
        yield from self._answer(heard, submission.MsgAcceptMessage())
        return verdict

    def _unreadable(self, heard: c.Message, why: str) -> Iterator[c.Deed]:
        if heard.source is not None:
            yield from self._answer(heard, submission.MsgRejectMessage(submission.RejectKind.INVALID, why))
            return
        self.rejected[Reason.MALFORMED.word] += 1
        yield c.Refuse(Reason.MALFORMED, why[:200])

    def _rejected(self, heard: c.Message, message: SignedMessage, rejected: Rejected, now: c.Now) -> Iterator[c.Deed]:
        reason = rejected.fault.reason
        if heard.source is not None:
            self._holdings.counts[reason.word] += 1
            yield from self._turned_away.rejected(message, rejected, now, heard.source.hex())
            answer = submission.rejection(rejected, self._encoding.name)
            yield from self._answer(heard, answer, kept=rejected.fault is not Fault.DISK_FULL)
        elif rejected.fault is Fault.DUPLICATE:
            self.duplicates += 1
        elif rejected.fault in WAIT_FOR:
            yield c.Refuse(reason, rejected.detail)
        else:
            self.rejected[reason.word] += 1
            yield from self._turned_away.rejected(message, rejected, now, source_text(self.name))
            yield c.Refuse(Reason.PEER_REFUSED if reason.later else reason, rejected.detail)

    @staticmethod
    def _answer(heard: c.Message, answer: submission.Message, *, kept: bool = True) -> Iterator[c.Deed]:
        if heard.source is not None:
            yield c.Send(heard.source, submission.encode_message(answer), TTL_S, kept=kept)

    def as_status(self) -> dict[str, Any] | None:
        """Return what `router dmq status` shows of the group; None if there is none."""
        if not self.name:
            return None
        return {
            "name": self.name,
            "joined": self.is_joined,
            "may_publish": self.may_publish,
            "problem": self.problem,
            "published": self.published,
            "heard": self.heard,
            "duplicates": self.duplicates,
            "rejected": dict(self.rejected),
        }


def source_text(group: str) -> str:
    """Return how the group stands where else a peer's address does."""
    return f"group {group}"
