"""The tokens of scripts: what each may do, until when, and the digest by which it is known."""

from __future__ import annotations

import hashlib
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c
from router.service.contract import Put, kept_under

from ..http.request import Answer, Request, refusal, shown

TOKENS_MAX = 1_000
"""Most tokens of one web side."""
GROUPS_MAX = 64
"""Most groups that tokens read: of each some messages are remembered."""
SECRET_BYTES = 32
PREFIX = b"token/"
NAME_FORM = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z"
IN_URL = "auth"
"""The parameter in which a token may stand that is allowed in an address."""
HOW = "send it as `Authorization: Bearer TOKEN`"
_CHALLENGE = ("WWW-Authenticate", 'Bearer realm="router", Basic realm="router"')

Right = Literal["publish", "read"]


class Token(Struct, frozen=True, kw_only=True):
    """A token as it is kept. `publish`, `read`: the groups, by name, with their keys in hexadecimal digits.

    `until_s`: 0 without an end; `in_url`: whether it may stand in an address."""

    name: str
    digest: str
    publish: dict[str, str] = {}
    read: dict[str, str] = {}
    made_s: int
    until_s: int = 0
    in_url: bool = False

    def group(self, right: Right, name: str) -> str:
        """Return the key of a group in which the token has this right; "" if it has not."""
        return (self.publish if right == "publish" else self.read).get(name, "")

    def as_row(self) -> dict[str, object]:
        """Return the token as the operator reads it, without what it is known by."""
        return {
            "name": self.name,
            "publish": sorted(self.publish),
            "read": sorted(self.read),
            "made_s": self.made_s,
            "until_s": self.until_s,
            "in_url": self.in_url,
        }


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """The operator's wish for a token."""

    name: str
    publish: dict[str, str] = {}
    read: dict[str, str] = {}
    until_s: int = 0
    in_url: bool = False


class Tokens:
    """The tokens of this web side."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._by_name: dict[str, Token] = {}
        self._by_digest: dict[str, Token] = {}
        for _, value in kept_under(kept, PREFIX):
            self._add(msgspec.json.decode(value, type=Token))

    def __repr__(self) -> str:
        return f"<{counted(len(self._by_name), 'token')}>"

    def __iter__(self) -> Iterator[Token]:
        return iter(self._by_name.values())

    @property
    def digests(self) -> frozenset[str]:
        """Return the digests of all tokens that have not ended."""
        return frozenset(self._by_digest)

    @property
    def groups(self) -> frozenset[str]:
        """Return the keys of the groups that some token permits to read."""
        return frozenset(key for token in self for key in token.read.values())

    def _add(self, token: Token) -> None:
        self._by_name[token.name] = self._by_digest[token.digest] = token

    # -- the operator's ------------------------------------------------------------------------------------

    def make(self, wish: NewToken, secret: bytes, now: c.Now) -> tuple[str, Put]:
        """Return a new token as a script sends it, and what to keep of it. Raises `ValueError`."""
        if wish.name in self._by_name:
            raise ValueError(f'there is a token "{wish.name}" already; end it first, or choose another name')
        if len(self._by_name) >= TOKENS_MAX:
            raise ValueError(f"there are {TOKENS_MAX} tokens, and no more may be; end some that nobody needs")
        if not (wish.publish or wish.read):
            raise ValueError("the token would permit nothing; name the groups with --publish and --read")
        if wish.until_s and wish.until_s <= now.wall_s:
            raise ValueError("the token would be over already; let it expire later, or not at all")
        if len(self.groups | set(wish.read.values())) > GROUPS_MAX:
            raise ValueError(f"tokens read {GROUPS_MAX} groups at most; end some that nobody needs")
        text = "web_" + urlsafe_b64encode(secret).decode().rstrip("=")
        token = Token(
            name=wish.name,
            digest=_digest(text),
            publish=wish.publish,
            read=wish.read,
            made_s=int(now.wall_s),
            until_s=wish.until_s,
            in_url=wish.in_url,
        )
        self._add(token)
        return text, Put(PREFIX + wish.name.encode(), msgspec.json.encode(token))

    def end(self, name: str) -> Put:
        """End a token; return what to keep. Raises `ValueError`."""
        token = self._by_name.pop(name, None)
        if token is None:
            raise ValueError(f'there is no token "{shown(name)}"; `router web tokens` lists them')
        del self._by_digest[token.digest]
        return Put(PREFIX + name.encode(), None)

    def end_overdue(self, now: c.Now) -> list[Put]:
        """End the tokens whose time is over; return what to keep."""
        over = [one.name for one in self._by_name.values() if one.until_s and one.until_s <= now.wall_s]
        return [self.end(name) for name in over]

    # -- of a request --------------------------------------------------------------------------------------

    def judge(self, request: Request, now: c.Now) -> Token | Answer:
        """Return the token of a request, or why it is not answered."""
        text, is_in_url = _sent(request)
        if not text:
            return unknown_token(f"this needs a token: {HOW}; the operator makes one by `router web token`")
        token = self._by_digest.get(_digest(text))
        if token is None:
            return unknown_token(f"this token is not known, or was ended; {HOW}")
        if token.until_s and token.until_s <= now.wall_s:
            return unknown_token(f'the token "{token.name}" is over; the operator makes another by `router web token`')
        if is_in_url and not token.in_url:
            return unknown_token(f'the token "{token.name}" may not stand in an address, where many see it; {HOW}')
        return token


def no_right(token: Token, right: Right, group: str) -> Answer:
    """Return the answer to a request for which its token is not enough."""
    done = "publish in" if right == "publish" else "read"
    said = f'the token "{token.name}" does not permit to {done} "{shown(group)}", or there is no such group'
    return refusal(403, "no-right", f"{said}; the operator makes another by `router web token`")


def unknown_token(text: str) -> Answer:
    """Return the answer to a request whose token does not count."""
    return refusal(401, "no-token", text, _CHALLENGE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _sent(request: Request) -> tuple[str, bool]:
    """Return the token that a request has, "" if it has none, and whether it stands in its address."""
    kind, _, value = request.header(b"authorization").partition(" ")
    if kind.lower() == "bearer":
        return value.strip(), False
    if kind.lower() == "basic":
        try:
            user, _, password = b64decode(value.strip(), validate=True).decode(errors="replace").partition(":")
        except ValueError:
            return "", False
        return password or user, False
    try:
        return request.parameters().get(IN_URL, ""), True
    except ValueError:
        return "", False
