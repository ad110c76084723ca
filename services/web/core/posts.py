"""Messages that scripts publish: answered when the router has them in custody, and the same key makes no second one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import count

import msgspec
from msgspec import Struct, field

from router.core.wire.text import counted
from router.service import contract as c
from router.service.contract import kept_under

from .http_door import HttpDoor
from .past import entry_of
from .request import JSON, Answer, Later, Reply, Request, refusal
from .tokens import Token
from .watchers import Watchers

OPEN_MAX = 1_000
"""Most messages that wait for the router."""
POST_S = 30.0
"""Seconds after which a script is told that its message is on its way, but not in custody yet."""
ONCE_S = 86_400
"""Seconds for which an `Idempotency-Key` stands for its message."""
ONCE_MAX = 10_000
"""Most such keys that are kept."""
ONCE_BYTES_MAX = 256
PREFIX = b"once/"
TAG = "post/"
PUBLISHED = "web_published"


class _Once(Struct, frozen=True):
    """A message that an `Idempotency-Key` stands for: the digest of its body, its id when it has one."""

    body: str
    until_s: int
    id: str = ""


class _Post(Struct):
    """A message on its way. `by_s`: when those who wait for it are told that it takes longer."""

    token: str
    group: str
    key: str
    body: bytes
    by_s: float
    once: bytes = b""
    waiting: list[tuple[str, str]] = field(default_factory=list)


class Posts:
    """The messages on their way."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._numbers = count(1)
        self._open: dict[str, _Post] = {}
        self._once = {key: msgspec.json.decode(value, type=_Once) for key, value in kept_under(kept, PREFIX)}

    def __repr__(self) -> str:
        return f"<{counted(len(self._open), 'message')} on their way>"

    def __len__(self) -> int:
        return len(self._open)

    def reply(self, request: Request, token: Token, group: str, key: str, now: c.Now) -> Reply:
        """Return the answer to a message for a group, or let it wait for custody."""
        said = request.header(b"idempotency-key")
        if len(said) > ONCE_BYTES_MAX:
            return refusal(400, "key-too-long", f"an Idempotency-Key may have {ONCE_BYTES_MAX} bytes")
        if len(self._open) >= OPEN_MAX:
            full = f"{OPEN_MAX} messages wait for the router already; publish this one again later"
            return refusal(503, "posts-full", full, ("Retry-After", "5"))
        post = _Post(token.name, group, key, request.body, now.mono_s + POST_S)
        if said:
            return self._reply_once(request, post, said, now)
        return self._publish(request, post, f"{TAG}#{next(self._numbers)}", ())

    def _reply_once(self, request: Request, post: _Post, said: str, now: c.Now) -> Reply:
        parts = (post.token, post.key, said)
        name = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).digest()
        tag, body = TAG + name.hex(), hashlib.sha256(post.body).hexdigest()
        known = self._once.get(name)
        if known is None or known.until_s <= now.wall_s:
            if len(self._once) >= ONCE_MAX:
                full = f"{ONCE_MAX} messages with an Idempotency-Key were published within a day; publish without one"
                return refusal(503, "keys-full", full, ("Retry-After", "3600"))
            post.once = name
            kept = _Once(body, int(now.wall_s) + ONCE_S)
            return self._publish(request, post, tag, (self._keep(name, kept),))
        if known.body != body:
            return refusal(422, "other-body", "this Idempotency-Key stands for another message; choose a new one")
        if known.id:
            return _published(known.id, post.group)
        if tag not in self._open:  # an earlier life has published it, and the router is about to take it
            post.once = name
            self._open[tag] = post
        self._open[tag].waiting.append((request.door, request.peer))
        return Later()

    def _publish(self, request: Request, post: _Post, tag: str, deeds: tuple[c.Deed, ...]) -> Later:
        post.waiting.append((request.door, request.peer))
        self._open[tag] = post
        return Later((*deeds, c.Publish(post.body, post.key, tag=tag)))

    def _keep(self, name: bytes, once: _Once) -> c.Put:
        self._once[name] = once
        return c.Put(PREFIX + name, msgspec.json.encode(once))

    # -- what became of them -------------------------------------------------------------------------------

    def sent(self, heard: c.Sent, watchers: Watchers, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Tell those who wait what became of a message."""
        post = self._open.pop(heard.tag, None)
        if post is None:
            return
        if heard.refused is None:
            answer = _published(heard.id.hex(), post.group)
            if (once := self._once.get(post.once)) is not None:
                yield self._keep(post.once, _Once(once.body, once.until_s, heard.id.hex()))
            yield c.LogEvent(PUBLISHED, heard.id, fields={"token": post.token})
            yield from watchers.add(post.key, entry_of(heard.id.hex(), now.wall_s, post.body, token=post.token), doors)
        else:
            if self._once.pop(post.once, None) is not None:
                yield c.Put(PREFIX + post.once, None)
            answer = _not_published(heard)
        for door, peer in post.waiting:
            yield from doors[door].answer_later(peer, answer, now)

    def tick(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Tell those who have waited long that it takes longer; forget old keys."""
        for post in [one for one in self._open.values() if one.waiting and one.by_s <= now.mono_s]:
            waiting, post.waiting = post.waiting, []
            said = {"group": post.group, "state": "kept here, and not in the router's custody yet"}
            answer = Answer(status=202, body=json.dumps(said).encode() + b"\n", kind=JSON)
            for door, peer in waiting:
                yield from doors[door].answer_later(peer, answer, now)
        for name in [name for name, one in self._once.items() if one.until_s <= now.wall_s]:
            del self._once[name]
            yield c.Put(PREFIX + name, None)


def _published(id: str, group: str) -> Answer:
    body = json.dumps({"id": id, "group": group}).encode() + b"\n"
    return Answer(status=201, body=body, kind=JSON, headers=(("Location", f"../messages/{id}"),))


def _not_published(heard: c.Sent) -> Answer:
    assert heard.refused is not None
    said = heard.text or heard.refused.sentence
    if heard.refused.later:
        return refusal(503, heard.refused.word, said, ("Retry-After", "10"))
    return refusal(422, heard.refused.word, said)
