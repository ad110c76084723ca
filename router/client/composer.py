"""Turn an app's bodies into signed messages: sealing, sequence numbers, causes, and distinct ids.

Two equal messages have one id, and a router delivers one of them. Sealed bodies always differ, by their nonce. Each
copy of an unsealed body gets a ttl a few seconds lower than the one asked for (or, with ttl 0, an expiry a few minutes
earlier), so that publishing it twice delivers it twice. A body that is published `once` is delivered once, whoever
publishes it, and however often: its message depends on nothing but the arguments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from router.client.custody.causes import Causes
from router.client.errors import CannotPublish, Refused
from router.client.sequence import Sequences
from router.core.wire import application
from router.core.wire.application import NONCE_BYTES
from router.core.wire.codec import frame
from router.core.wire.crypto import MessageId, PublicKey, SigningKey, digest
from router.core.wire.grouplink import GroupLink
from router.core.wire.hint import Hint
from router.core.wire.lifetime import EXPIRY_MIN, TTL_S, UINT32_MAX, expiry_min
from router.core.wire.message import message_id, seal_multicast, seal_unicast
from router.core.wire.packed_ids import PackedIds
from router.core.wire.prekey import Prekey
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, short

CONTROL_LIFE_MIN = 60
ALIKE_MAX = 4096
"""Newest unsealed messages that are remembered, so that an equal one gets another id; and bodies of which several would
have been equal, until they expire."""
ALIKE_BYTES = 16
SPREAD_MAX = 256
"""Largest random offset of the first of equal bodies, so that it differs from another process's."""


class Lifetime(Struct, frozen=True):
    """The longest time that a message waits at a router (seconds), and the time for which it is valid (minutes from
    now). `until_s`: the Unix second until which it is valid, in place of that."""

    ttl_s: int = TTL_S
    expiry_min: int = EXPIRY_MIN
    until_s: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("ttl_s", self.ttl_s), ("expiry_min", self.expiry_min)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} is a whole number, not {value!r}")


class Composed(Struct, frozen=True):
    """A message ready to be handed in.

    `unsay`: called when it is refused, so that no later message names it as a cause; `undo`: called when it was never
    sent, to free its sequence number; `kept`: called when it is in custody. `sealed`: nobody on the way can read it.
    """

    id: MessageId
    frame: bytes
    unsay: Callable[[], None]
    undo: Callable[[], None]
    kept: Callable[[], None]
    sealed: bool = False


class GroupSender(Struct, frozen=True):
    """The data for publishing in a group: its key, the way of sealing bodies, and the causes that a message names.

    `hints`: routers that serve it."""

    group: PublicKey
    signer: SigningKey | None
    content_key: bytes | None
    causes: Causes
    hints: tuple[Hint, ...] = ()

    @classmethod
    def of_link(cls, link: GroupLink, causes: Causes) -> GroupSender:
        signer = None if link.seed is None else SigningKey(link.seed)
        return cls(link.group, signer, link.content_key, causes, link.hints)


class Composer:
    """Make the messages of one app, signed with its key. `wall_s` returns Unix seconds, `entropy` random bytes."""

    def __init__(
        self, key: SigningKey, sequences: Sequences, wall_s: Callable[[], float], entropy: Callable[[int], bytes]
    ) -> None:
        self._key = key
        self._sequences = sequences
        self._wall_s = wall_s
        self._entropy = entropy
        self._unsealed = PackedIds(3 * ALIKE_MAX)  # expiry, what the ttl lacks, and digest
        self._alike: OrderedDict[bytes, int] = OrderedDict()  # by expiry and digest: what the last one's ttl lacks

    def once(self, sender: GroupSender, body: bytes, ttl_s: int, until_s: int) -> Composed:
        """Compose an unsealed message to a group that is the same whoever composes it, and whenever: it names no
        causes, and its lifetime is the one that is given."""
        signer = _signer_of(sender)
        ttl_s, until_min = self._bounds(Lifetime(ttl_s, until_s=until_s), self._wall_s())
        wire = seal_multicast(signer, body, ttl_s=ttl_s, expiry_min=until_min, seen=())
        return Composed(message_id(wire), frame(wire), _nothing, _nothing, _nothing)

    def multicast(self, sender: GroupSender, body: bytes, lifetime: Lifetime, *, raw: bool) -> Composed:
        """Compose a message to a group; sealed, unless it is `raw` or the group has no content key."""
        signer, now_s = _signer_of(sender), self._wall_s()
        causes, now_min = sender.causes, expiry_min(now_s)
        seen = causes.recent.ids(now_min)
        deps: tuple[MessageId, ...] = ()
        ttl_s, until_min = self._bounds(lifetime, now_s)
        undo: Callable[[], None] = _nothing
        content_key = None if raw else sender.content_key
        if content_key is None:
            ttl_s, until_min = self._unlike(sender.group + b"".join(seen) + digest(body), ttl_s, until_min, now_s)
        else:
            seq, deps = self._sequences.take(sender.group), causes.heads.ids(now_min)
            nonce = self._entropy(NONCE_BYTES)
            body = application.seal(self._key, sender.group, seq, deps, body, content_key=content_key, nonce=nonce)
            undo = partial(self._sequences.give_back, sender.group, seq)
        wire = seal_multicast(signer, body, ttl_s=ttl_s, expiry_min=until_min, seen=seen)
        id = message_id(wire)
        causes.published(id, until_min, deps, is_head=content_key is not None and ttl_s > 0)
        unsay, kept = partial(causes.refused, id), partial(causes.kept, id, until_min)
        return Composed(id, frame(wire), unsay, undo, kept, content_key is not None)

    def sign_by(self, key: SigningKey) -> None:
        """Sign what is composed from now on by another key of this app."""
        self._key = key

    def unicast(self, destination: PublicKey, body: bytes, lifetime: Lifetime) -> Composed:
        """Compose a message to one address, with the body unsealed."""
        now_s = self._wall_s()
        ttl_s, until_min = self._bounds(lifetime, now_s)
        ttl_s, until_min = self._unlike(destination + digest(body), ttl_s, until_min, now_s)
        wire = seal_unicast(self._key, destination, body, ttl_s=ttl_s, expiry_min=until_min)
        return Composed(message_id(wire), frame(wire), _nothing, _nothing, _nothing)

    def sealed(
        self, prekey: Prekey, seal: Callable[[Prekey, int, bytes], bytes], body: bytes, lifetime: Lifetime
    ) -> Composed:
        """Compose a message to the owner of a prekey, which `seal` seals to it. It expires with the prekey at the
        latest, as nobody can open it later."""
        to = prekey.owner
        ttl_s, until_min = self._bounds(lifetime, self._wall_s())
        if prekey.until_min is not None:
            until_min = min(until_min, prekey.until_min)
        seq = self._sequences.take(to)
        wire = seal_unicast(self._key, to, seal(prekey, seq, body), ttl_s=ttl_s, expiry_min=until_min)
        undo = partial(self._sequences.give_back, to, seq)
        return Composed(message_id(wire), frame(wire), _nothing, undo, _nothing, sealed=True)

    def control(self, router: PublicKey, body: bytes) -> bytes:
        """Return the frame of a message to the own router, which acts on each: equal ones are no duplicates (R-C4)."""
        until_min = expiry_min(self._wall_s()) + CONTROL_LIFE_MIN
        return frame(seal_unicast(self._key, router, body, ttl_s=0, expiry_min=until_min))

    def _bounds(self, lifetime: Lifetime, now_s: float) -> tuple[int, int]:
        if not 0 <= lifetime.ttl_s <= UINT32_MAX:
            raise ValueError(f"a ttl has 0 to {UINT32_MAX} seconds, not {lifetime.ttl_s}")
        if lifetime.until_s is not None:
            until_min = expiry_min(lifetime.until_s)
            if until_min < expiry_min(now_s + 1):
                raise Refused(Reason.EXPIRY_PASSED, "it was to be valid until a time that is over")
            return lifetime.ttl_s, until_min
        if lifetime.expiry_min < 1:
            raise ValueError(f"an expiry of {lifetime.expiry_min} minutes is over at once; give at least 1")
        return lifetime.ttl_s, expiry_min(now_s + 60 * lifetime.expiry_min)

    def _unlike(self, said: bytes, ttl_s: int, until_min: int, now_s: float) -> tuple[int, int]:
        """Choose a ttl, or an expiry, with which this body has not been published before."""
        least_min = expiry_min(now_s) + 1
        chance = int.from_bytes(self._entropy(2), "big")
        first = chance % min(SPREAD_MAX, ttl_s // 8 + 1)
        if not ttl_s:
            until_min -= chance % min(SPREAD_MAX, (until_min - least_min) // 8 + 1)
        alike = digest(said)[:ALIKE_BYTES]
        while until_min >= least_min:
            key = until_min.to_bytes(4, "big") + alike
            less = begun = self._alike.get(key, first)
            while less <= ttl_s and _packed(until_min, less, alike) in self._unsealed:
                less += 1
            if less <= ttl_s:
                self._unsealed.add(_packed(until_min, less, alike))
                if less > begun:
                    self._remember(key, less, least_min.to_bytes(4, "big"))
                return ttl_s - less, until_min
            until_min -= 1
        raise Refused(Reason.DUPLICATE, "the same body has been sent too often for one more id within its lifetime")

    def _remember(self, key: bytes, less: int, least: bytes) -> None:
        self._alike[key] = less
        while len(self._alike) > ALIKE_MAX or next(iter(self._alike)) < least:
            self._alike.popitem(last=False)


def _packed(until_min: int, less: int, alike: bytes) -> bytes:
    """Return what `PackedIds` keeps all bytes of."""
    return until_min.to_bytes(4, "big") + less.to_bytes(4, "big") + alike[:8]


def octets(body: bytes) -> bytes:
    """Copy the body as it is now; raise `TypeError` if it is not bytes."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    remedy = "; say body.encode()" if isinstance(body, str) else ""
    raise TypeError(f"a body is bytes, not {type(body).__name__}{remedy}")


def _signer_of(sender: GroupSender) -> SigningKey:
    if sender.signer is None:
        name = short(key_text("group", sender.group))
        raise CannotPublish(f"the link of {name} is for reading only; ask a sender of the group for a full one")
    return sender.signer


def _nothing() -> None:
    """Undo nothing."""
