"""Messages that scripts publish: answered when the router has them in custody, and the same key makes no second one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from router.core.wire.reasons import Reason
from router.core.wire.text import counted
from router.service import contract as c
from router.service.contract import kept_under

from ..http.door import HttpDoor
from ..http.request import JSON, Answer, Later, Reply, Request, refusal
from .past import entry_of
from .pasts import Pasts
from .shares import has_share
from .tokens import Token
from .watchers import Watchers

OPEN_MAX = 1_000
"""Most messages that wait for the router; of these and of what follows each token has its share (`has_share`)."""
OPEN_BYTES_MAX = 32 << 20
"""Most bytes of their bodies."""
POST_S = 30.0
"""Seconds after which a script is told that its message is on its way, but not in custody yet."""
ONCE_S = 86_400
"""Seconds for which an `Idempotency-Key` stands for its message, and as long as that is on its way."""
ONCE_MAX = 20_000
"""Most such keys that are kept."""
ONCE_BYTES_MAX = 256
ONCE, OPEN, BODY = b"once/", b"post/", b"posted/"
"""Prefixes of what is kept: the keys, the messages that are not in custody yet, and the bodies of those that will be
remembered on disk."""
TAG = "post/"
TAG_BYTES = 16
PUBLISHED = "web_published"


class _Once(Struct, frozen=True):
    """A message that an `Idempotency-Key` stands for: the digest of its body, its id when it has one."""

    body: str
    until_s: int
    id: str = ""


class _Waiting(NamedTuple):
    """A client that waits for custody. `by_s`: when it is told that it takes longer."""

    door: str
    peer: str
    by_s: float


class _Open(Struct, frozen=True):
    """A message on its way as it is kept, so that a later life knows whose it is: its token, the name and key of its
    group, and in hexadecimal digits the digest of its `Idempotency-Key`, "" if it has none."""

    token: str
    group: str
    key: str
    once: str = ""


class _Post(Struct):
    """A message on its way. `body` is not known if an earlier life has published it and kept none."""

    kept: _Open
    body: bytes | None = None
    waiting: list[_Waiting] = field(default_factory=list)


class Posts:
    """The messages on their way, by the tags under which they are published."""

    def __init__(self, kept: Mapping[bytes, bytes], randbytes: Callable[[int], bytes], pasts: Pasts) -> None:
        self._kept = kept
        self._pasts = pasts
        self._randbytes = randbytes
        self._once = {key: msgspec.json.decode(value, type=_Once) for key, value in kept_under(kept, ONCE)}
        self._once_of: dict[bytes, str] = {}  # by which token a key was used in this life
        self._open = {
            TAG + key.hex(): _Post(msgspec.json.decode(value, type=_Open), kept.get(BODY + key))
            for key, value in kept_under(kept, OPEN)
        }

    def __repr__(self) -> str:
        return f"<{counted(len(self._open), 'message')} on their way>"

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> Iterator[c.Put]:
        """Forget the bodies of messages that will not be remembered on disk any more."""
        for key, _ in kept_under(self._kept, BODY):
            post = self._open.get(TAG + key.hex())
            if post is None or not self._pasts.keeps(post.kept.key):
                yield c.Put(BODY + key, None)

    # -- requests ------------------------------------------------------------------------------------------

    def refusal(self, request: Request, token: Token) -> Answer | None:
        """Return why a message is not taken, whatever it says; None if it may be."""
        if len(said := request.header(b"idempotency-key")) > ONCE_BYTES_MAX:
            return refusal(400, "key-too-long", f"an Idempotency-Key may have {ONCE_BYTES_MAX} bytes")
        return None if said else self._want_of_room(token, b"")

    def _want_of_room(self, token: Token, body: bytes) -> Answer | None:
        if not c.has_room(self._kept):
            said = "the disk of this node has no room for more; publish this message again later"
            return refusal(503, Reason.DISK_FULL.word, said, ("Retry-After", "60"))
        sizes = [len(post.body or b"") for post in self._open.values()]
        own = [len(post.body or b"") for post in self._open.values() if post.kept.token == token.name]
        if has_share(len(own), len(sizes), OPEN_MAX) and has_share(sum(own), sum(sizes), OPEN_BYTES_MAX, len(body)):
            return None
        full = f'{counted(len(own), "message")} of the token "{token.name}" with {sum(own)} bytes wait for the router'
        rest = f"{len(sizes)} with {sum(sizes)} bytes of all tokens, and no more of it may"
        return refusal(503, "posts-full", f"{full}, {rest}; publish this one again later", ("Retry-After", "5"))

    def _no_share_of_keys(self, token: Token) -> Answer | None:
        """Return why a message of this token is not taken that has a new key; None if it may be."""
        own = sum(name == token.name for name in self._once_of.values())
        if has_share(own, len(self._once), ONCE_MAX):
            return None
        full = f'the token "{token.name}" has published {counted(own, "message")} with an Idempotency-Key within a day'
        rest = f"of {len(self._once)} that all tokens have, and no more of it are kept"
        said = f"{full}, {rest}; publish without one, or give each program a token of its own"
        return refusal(503, "keys-full", said, ("Retry-After", "3600"))

    def reply(
        self, request: Request, token: Token, group: str, key: str, doors: Mapping[str, HttpDoor], now: c.Now
    ) -> Reply:
        """Return the answer to a message for a group, or let it wait for custody."""
        if (refused := self.refusal(request, token)) is not None:
            return refused
        said = request.header(b"idempotency-key")
        if not said:
            tag = self._new_tag()
            return self._want_of_room(token, request.body) or self._publish(
                request, tag, _Open(token.name, group, key), now
            )
        name = hashlib.sha256("\0".join((token.name, key, said)).encode("utf-8", "replace")).digest()
        known = self._once.get(name)
        if known is not None and (known.until_s > now.wall_s or TAG + name.hex() in self._open):
            return self._reply_again(request, known, name, group, doors, now)
        if (refused := self._no_share_of_keys(token) or self._want_of_room(token, request.body)) is not None:
            return refused
        self._once_of[name] = token.name
        once = _Once(hashlib.sha256(request.body).hexdigest(), int(now.wall_s) + ONCE_S)
        later = self._publish(request, TAG + name.hex(), _Open(token.name, group, key, name.hex()), now)
        return Later((self._keep(name, once), *later.deeds))

    def _reply_again(
        self, request: Request, known: _Once, name: bytes, group: str, doors: Mapping[str, HttpDoor], now: c.Now
    ) -> Reply:
        """Return the answer to a message with a key that was used already."""
        if known.body != hashlib.sha256(request.body).hexdigest():
            return refusal(422, "other-body", "this Idempotency-Key stands for another message; choose a new one")
        if known.id:
            return _published(known.id, group)
        if (post := self._open.get(TAG + name.hex())) is None:
            return _on_its_way(group)
        post.body = request.body  # an earlier life may have kept none
        post.waiting = [one for one in post.waiting if one.peer in doors[one.door]]
        post.waiting.append(_Waiting(request.door, request.peer, now.mono_s + POST_S))
        return Later()

    def _new_tag(self) -> str:
        while (tag := TAG + self._randbytes(TAG_BYTES).hex()) in self._open:
            pass
        return tag

    def _publish(self, request: Request, tag: str, kept: _Open, now: c.Now) -> Later:
        self._open[tag] = _Post(kept, request.body, [_Waiting(request.door, request.peer, now.mono_s + POST_S)])
        puts = [c.Put(_row(tag), msgspec.json.encode(kept))]
        if self._pasts.keeps(kept.key):
            puts.append(c.Put(_row(tag, BODY), request.body))
        return Later((*puts, c.Publish(request.body, kept.key, tag=tag)))

    def _keep(self, name: bytes, once: _Once) -> c.Put:
        self._once[name] = once
        return c.Put(ONCE + name, msgspec.json.encode(once))

    def _forget(self, name: bytes) -> c.Put:
        del self._once[name]
        self._once_of.pop(name, None)
        return c.Put(ONCE + name, None)

    # -- what became of them -------------------------------------------------------------------------------

    def sent(self, heard: c.Sent, watchers: Watchers, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Tell those who wait what became of a message."""
        post = self._open.pop(heard.tag, None)
        if post is None:
            return
        yield c.Put(_row(heard.tag), None)
        if _row(heard.tag, BODY) in self._kept:
            yield c.Put(_row(heard.tag, BODY), None)
        name = bytes.fromhex(post.kept.once)
        once = self._once.get(name)
        if heard.refused is None:
            answer = _published(heard.id.hex(), post.kept.group)
            if once is not None:
                yield self._keep(name, _Once(once.body, once.until_s, heard.id.hex()))
            yield c.LogEvent(PUBLISHED, heard.id, fields={"token": post.kept.token})
            if post.body is None:
                yield from watchers.miss(post.kept.key, doors, now)
            else:
                entry = entry_of(heard.id.hex(), now.wall_s, post.body, token=post.kept.token)
                yield from watchers.add(post.kept.key, entry, doors)
        else:
            answer = _not_published(heard)
            if once is not None:
                yield self._forget(name)
        for one in post.waiting:
            yield from doors[one.door].answer_later(one.peer, answer, now)

    def tick(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Tell those who have waited long that it takes longer; forget old keys."""
        for post in [one for one in self._open.values() if one.waiting]:
            late = [one for one in post.waiting if one.by_s <= now.mono_s]
            post.waiting = [one for one in post.waiting if one.by_s > now.mono_s]
            for one in late:
                yield from doors[one.door].answer_later(one.peer, _on_its_way(post.kept.group), now)
        over = [name for name, one in self._once.items() if one.until_s <= now.wall_s]
        for name in (one for one in over if TAG + one.hex() not in self._open):
            yield self._forget(name)


def _row(tag: str, prefix: bytes = OPEN) -> bytes:
    return prefix + bytes.fromhex(tag.removeprefix(TAG))


def _published(id: str, group: str) -> Answer:
    body = json.dumps({"id": id, "group": group}).encode() + b"\n"
    return Answer(status=201, body=body, kind=JSON, headers=(("Location", f"../messages/{id}"),))


def _on_its_way(group: str) -> Answer:
    said = {"group": group, "state": "kept here, and not in the router's custody yet"}
    return Answer(status=202, body=json.dumps(said).encode() + b"\n", kind=JSON)


def _not_published(heard: c.Sent) -> Answer:
    assert heard.refused is not None
    said = heard.text or heard.refused.sentence
    if heard.refused.later:
        return refusal(503, heard.refused.word, said, ("Retry-After", "10"))
    return refusal(422, heard.refused.word, said)
