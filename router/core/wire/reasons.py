"""The reasons for which a message is not passed on: one list for refusals, the event log, metrics and the CLI.

Numbers 0-63 are the router's; every service has a later range (`RANGES`), and declares its reasons in its `reasons.py`.
A reason that is not declared in this process is shown by its number. Reasons of a service's range that the router
itself gives, because it redeems invitations, dials, and knows the shared groups, are declared here.
"""

from __future__ import annotations

import re
from enum import IntEnum

SERVICES_MIN = 64
RANGES = {"dmq": (64, 127), "capd": (128, 191), "discovery": (192, 223), "pubsub": (224, 255)}
OTHERS = (256, 1023)
"""The range of all other services; two of them on one node must choose different numbers."""
WORD = re.compile(r"[a-z][a-z0-9_:-]{0,63}")
REASON_MAX = (1 << 16) - 1
LISTED_MIN = 35
"""The least number of a reason that segments of the event log name: the words of those before are the same in all
versions."""
LISTED_BYTES_MAX = 32_768
"""Most bytes of the list of these words, each with two quotes and a comma: readers of a segment keep 64 KiB of its
header."""
NOT_DECLARED = "A service ended it for a reason of its own, which this node has no words for."


class Reason(IntEnum):
    """The reason for which a message is not passed on: `word` for machines, `sentence` for people, `later` if a retry
    may succeed."""

    word: str
    sentence: str
    later: bool

    def __new__(cls, number: int, word: str = "", sentence: str = "", later: bool = False) -> Reason:
        self = int.__new__(cls, number)
        self._value_ = number
        self.word = word
        self.sentence = sentence
        self.later = later
        return self

    @property
    def clause(self) -> str:
        """Return the sentence without capital and full stop, for use inside another one."""
        return self.sentence[0].lower() + self.sentence[1:].rstrip(".")

    @classmethod
    def _missing_(cls, value: object) -> Reason | None:
        """Return a reason for a service's number that is not declared in this process, or None for any other value."""
        if not isinstance(value, int) or not SERVICES_MIN <= value <= REASON_MAX:
            return None
        return cls._member(value, f"reason-{value}", NOT_DECLARED, False)

    @classmethod
    def _member(cls, number: int, word: str, sentence: str, later: bool) -> Reason:
        self = int.__new__(cls, number)
        self._value_, self._name_ = number, word
        self.word, self.sentence, self.later = word, sentence, later
        return self

    @classmethod
    def declare(cls, number: int, word: str, sentence: str, *, later: bool = False) -> Reason:
        """Give a service's reason its word and sentence, and return it; `later`: a retry may succeed.

        Raises `ValueError` if the number or the word is out of range, or taken by another reason.
        """
        known = cls._value2member_map_.get(number)
        if not SERVICES_MIN <= number <= OTHERS[1] or not WORD.fullmatch(word):
            said = f'{number} and "{word}" name no reason of a service'
            raise ValueError(f"{said}: choose a number from {OTHERS[0]} to {OTHERS[1]}, and small letters")
        if (taken := by_word(word)) is not None and taken != number:
            raise ValueError(f'the word "{word}" is that of reason {int(taken)} already; choose another')
        if isinstance(known, Reason) and known.word != word:
            raise ValueError(f'reason {number} is "{known.word}" already; choose another number')
        found = cls._value2member_map_[number] = cls._member(number, word, sentence, later)
        assert isinstance(found, Reason)
        return found

    MALFORMED = 1, "malformed", "The bytes are not a message of this protocol."
    UNSUPPORTED = 2, "unsupported", "This router does not know that kind of message."
    TOO_LARGE = 3, "too-large", "The message is larger than this router allows."
    BAD_SIGNATURE = 4, "bad-signature", "The signature does not fit the key that the message names."
    DUPLICATE = 5, "duplicate", "This router has already accepted that message."
    NO_ROUTE = 6, "no-route", "No route to the destination is known."
    NO_SUBSCRIBERS = 7, "no-subscribers", "Nobody has joined the group who is here or has messages kept."
    NOT_LOCAL_SOURCE = 8, "not-local-source", "The message claims a local source but came from outside."
    NOT_AUTHORISED = 9, "not-authorised", "The sender has no right to do this here."
    BLOCKED = 10, "blocked", "The operator has blocked this key."
    RATE_LIMITED = 11, "rate-limited", "Too many messages in too short a time.", True
    RECIPIENT_OFFLINE_TTL0 = 12, "recipient-offline-ttl0", "The recipient is away and ttl 0 forbids waiting."
    TTL_EXPIRED = 13, "ttl-expired", "The message waited longer than its ttl allows."
    EXPIRY_PASSED = 14, "expiry-passed", "The message's expiry time has passed."
    EXPIRY_TOO_FAR = 15, "expiry-too-far", "The message's expiry lies further ahead than this router allows."
    QUEUE_FULL_RECIPIENT = 16, "queue-full-recipient", "The recipient's queue is full.", True
    QUEUE_FULL_GROUP = 17, "queue-full-group", "The share of the queue for this group or sender is full.", True
    QUEUE_FULL_NODE = 18, "queue-full-node", "The store of this node, or the sender's share of it, is full.", True
    INDEX_FULL = 19, "index-full", "The index of known messages is too full for this one.", True
    WINDOW_EXCEEDED = 20, "window-exceeded", "More messages are in flight than the window allows."
    DISK_FULL = 21, "disk-full", "The disk of this node is nearly full.", True
    CONNECT_FAILED = 22, "connect-failed", "The next router could not be reached.", True
    CONNECT_TIMEOUT = 23, "connect-timeout", "The next router did not answer in time.", True
    PEER_REFUSED = 24, "peer-refused", "The next router, or the recipient itself, refused the message."
    LEFT = 25, "left", "The recipient left, was removed, or its queue was cleared."
    REPLACED = 26, "replaced", "A newer connection of the same key took over."
    SHUTDOWN = 27, "shutdown", "The node is stopping.", True
    INTERNAL = 28, "internal", "Something is wrong inside this node.", True
    STORE_DAMAGED = 29, "store-damaged", "The message's bytes were damaged on the disk of this node."
    CLOCK_DOUBTED = 30, "clock-doubted", "Clocks disagree about whether the message is valid now.", True
    NOT_KEPT = 31, "not-kept", "The recipient was away and has no right `store` here, so nothing is kept for it."
    NEXT_AWAY = 32, "next-away", "The next router was away, and a copy for it waits a minute at most."
    RENEWED = 33, "renewed", "Another key has taken the place of this one."
    COPIED = 34, "copied", "A newer copy of this node runs with its key, so this one accepts nothing.", True


def by_word(word: str) -> Reason | None:
    """Return the reason with this word, the router's or a declared one; None if there is none."""
    known = (one for one in Reason._value2member_map_.values() if isinstance(one, Reason))
    return next((one for one in known if one.word == word), None)


def listed() -> tuple[str, ...] | None:
    """Return the words of all reasons from `LISTED_MIN` on that this process knows, in order of their numbers; None if
    they take more than `LISTED_BYTES_MAX`."""
    known = sorted(one for one in Reason._value2member_map_.values() if isinstance(one, Reason) and one >= LISTED_MIN)
    words = tuple(one.word for one in known)
    return words if sum(len(word) + 3 for word in words) <= LISTED_BYTES_MAX else None


def known_count() -> int:
    """Return how many reasons this process knows: those that are declared later are more."""
    return len(Reason._value2member_map_)


def reason_from(number: int) -> Reason:
    """Return the reason with this number; `peer-refused` for an unknown number from a newer neighbour."""
    try:
        return Reason(number)
    except ValueError:
        return Reason.PEER_REFUSED


def missed_text(count: int, number: int, whom: str) -> str:
    """Return the sentence that tells a recipient (`whom`: an app by its name, or this node) which messages it
    was not sent, and why."""
    reason = reason_from(number)
    remedy = "; the operator of that router can grant `store`" if reason is Reason.NOT_KEPT else ""
    are = "message" if count == 1 else "messages"
    return f"{count} {are} for {whom} {'was' if count == 1 else 'were'} not delivered: {reason.clause}{remedy}"


INVITE_UNKNOWN = Reason.declare(192, "invite:unknown", "This router has made no such invitation.")
INVITE_EXPIRED = Reason.declare(193, "invite:expired", "The invitation's time has passed.")
INVITE_USED_UP = Reason.declare(194, "invite:used-up", "All uses of the invitation are taken by other guests.")
INVITE_REVOKED = Reason.declare(195, "invite:revoked", "The operator has revoked the invitation.")
INVITE_REMOVED = Reason.declare(196, "invite:removed", "The operator has removed this guest since it was let in.")
INVITE_NO_ROOM = Reason.declare(
    197, "invite:no-room", "This router has as many neighbours as its operator allows.", later=True
)
INVITE_ENDED = Reason.declare(198, "invite:ended", "The time for which this guest was let in is over.")
ADVERT_STALE = Reason.declare(200, "advert:stale", "A newer advertisement of that router is known.")
ADVERT_ADDRESS = Reason.declare(
    201, "advert:address", "The advertisement names an address that its bringer may not name."
)
NOT_SHARED = Reason.declare(
    224, "pubsub:not-shared", "No group of that name is shared with the router that sent it, or not yet.", later=True
)
DIAL_BUDGET = Reason.declare(204, "dial:budget", "That address was dialled often enough for now.", later=True)
