"""What scripts ask for: messages to a group, messages of a group, and what became of one. Each needs a token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from router.core.wire.reasons import Reason
from router.service import contract as c

from ..http.door import HttpDoor
from ..http.request import Answer, Reply, Request, refusal, shown
from .fates import Fates
from .past import entry_of
from .pasts import Pasts
from .posts import Posts
from .tokens import IN_URL, NAME_FORM, SECRET_BYTES, NewToken, Right, Token, Tokens, no_right
from .watchers import Watchers

GROUPS, MESSAGES = "/groups/", "/messages/"
_READING = ("GET", "HEAD")
_WISH = (
    '{"name": NAME, "publish": {GROUP: KEY}, "read": {GROUP: KEY}, "until_s": SECONDS, "in_url": true or false}, of '
    "which all but the name may be left out"
)
_KEY = re.compile(r"[0-9a-f]{64}\Z")


class Scripts:
    """The tokens, and what is under way for them."""

    def __init__(self, setup: c.Setup) -> None:
        self._randbytes: Callable[[int], bytes] = setup.chance.randbytes
        self._tokens = Tokens(setup.kept)
        self._pasts = Pasts(setup.kept, is_on_disk=setup.settings.remember_on_disk)
        self._posts = Posts(setup.kept, setup.chance.randbytes, self._pasts)
        self._watchers = Watchers(self._pasts)
        self._fates = Fates()

    def __repr__(self) -> str:
        return f"<scripts: {self._tokens!r}, {self._posts!r}, {self._watchers!r}, {self._fates!r}>"

    def __len__(self) -> int:
        """Return how much is under way that the clock may end."""
        return len(self._posts) + len(self._watchers) + len(self._fates)

    # -- requests ------------------------------------------------------------------------------------------

    def admits(self, request: Request, now: c.Now) -> Answer | None:
        """Return why a script's request is refused whatever its body is, which has not come yet; None if it may
        come."""
        found = self._judged(request, now)
        if isinstance(found, Answer):
            return found
        if request.method in _READING:
            return refusal(400, "body", f"a request that asks by {request.method} has no body")
        return self._posts.refusal(request, found[0])

    def reply(self, request: Request, doors: Mapping[str, HttpDoor], now: c.Now) -> Reply | None:
        """Return the answer to a script's request; None if it is none."""
        if not is_of_script(request):
            return None
        found = self._judged(request, now)
        if isinstance(found, Answer):
            return found
        token, group, key = found
        if not group:
            return self._fates.reply(request, token, request.path.removeprefix(MESSAGES), doors, now)
        if request.method in _READING:
            return self._watchers.reply(request, token, key, doors, now)
        return self._posts.reply(request, token, group, key, doors, now)

    def _judged(self, request: Request, now: c.Now) -> tuple[Token, str, str] | Answer:
        """Return the token of a request with the name and key of the group that it asks for, "" if it asks for a
        message; or why it is refused."""
        is_group = request.path.startswith(GROUPS)
        methods = (*_READING, "POST") if is_group else _READING
        if request.method not in methods:
            allowed = ", ".join(methods)
            said = f"there is {allowed} here, and no {shown(request.method)}"
            return refusal(405, "method", said, ("Allow", allowed))
        token = self._tokens.judge(request, now)
        if isinstance(token, Answer):
            return token
        known = ("wait",) if not is_group else ("since", "poll") if request.method in _READING else ()
        if (refused := request.unknown_parameters((*known, IN_URL))) is not None:
            return refused
        if not is_group:
            return token, "", ""
        right: Right = "read" if request.method in _READING else "publish"
        group = request.path.removeprefix(GROUPS)
        if not (key := token.group(right, group)):
            return no_right(token, right, group)
        return token, group, key

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Act on what concerns scripts."""
        match heard:
            case c.Started():
                yield from self._end_overdue(doors, now)
                yield from self._pasts.start(self._tokens.groups, now)
                yield from self._posts.start()
                for key in self._tokens.groups:
                    yield c.Join(key)
            case c.Message(group=group) if group is not None and not self._pasts.has_room:
                yield c.Refuse(Reason.DISK_FULL)
            case c.Message(id, body, group=group) if group is not None:
                entry = entry_of(id.hex(), now.wall_s, body, heard.sender, heard.seq)
                yield from self._watchers.add(group.hex(), entry, doors)
            case c.Sent():
                yield from self._posts.sent(heard, self._watchers, doors, now)
            case c.Told():
                yield from self._fates.told(heard, doors, now)
            case c.Tick():
                yield from self._posts.tick(doors, now)
                yield from self._fates.tick(now)
                yield from self._watchers.tick(doors, now)
                yield from self._end_overdue(doors, now)

    def _end_overdue(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """End the tokens whose time is over, and what they permitted."""
        before = self._tokens.groups
        if puts := self._tokens.end_overdue(now):
            yield from puts
            yield from self._leave(before, doors, now)

    def _leave(self, before: frozenset[str], doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """End what tokens read that have ended, and leave the groups of `before` that no token reads any more."""
        yield from self._watchers.end(self._tokens.digests, doors, now)
        yield from self._fates.end(self._tokens.digests, doors, now)
        for key in sorted(before - self._tokens.groups):
            yield from self._pasts.forget(key)
            yield c.Leave(key)

    # -- the operator's questions --------------------------------------------------------------------------

    def answer(self, asked: c.Asked, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Answer a question about tokens."""
        try:
            match asked.word:
                case "token":
                    yield from self._end_overdue(doors, now)
                    yield from self._make(asked, now)
                case "end":
                    before = self._tokens.groups
                    yield self._tokens.end(asked.argument)
                    yield from self._leave(before, doors, now)
                    yield c.Answer(asked.number, {"ended": asked.argument})
                case _:
                    yield c.Answer(asked.number, [token.as_row() for token in self._tokens])
        except ValueError as error:
            yield c.Answer(asked.number, {"error": str(error)})

    def _make(self, asked: c.Asked, now: c.Now) -> Iterator[c.Deed]:
        """Make a token. Raises `ValueError`."""
        wish = _wish_of(asked.argument)
        if not re.match(NAME_FORM, wish.name):
            raise ValueError(f'"{shown(wish.name)}" is no name of a token; write letters, digits, and . _ - between')
        if not all(_KEY.match(key) for key in (*wish.publish.values(), *wish.read.values())):
            raise ValueError("a group's key has 64 digits from 0 to f")
        text, put = self._tokens.make(wish, self._randbytes(SECRET_BYTES), now)
        yield put
        for key in wish.read.values():
            yield from self._pasts.follow(key, now)
            yield c.Join(key)
        yield c.Answer(asked.number, {"token": text, "name": wish.name})


def _wish_of(argument: str) -> NewToken:
    """Return the wish for a token. Raises `ValueError` with a sentence."""
    try:
        return msgspec.json.decode(argument, type=NewToken)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        found = re.search(r"`\$\.(\w+)|field `(\w+)`", str(error))
        wrong = f'its "{found[1] or found[2]}" is wrong' if found else "it is no such JSON"
        raise ValueError(f"the wish for a token cannot be read, since {wrong}; write {_WISH}") from None


def is_of_script(request: Request) -> bool:
    """Whether a request is for what needs a token."""
    return request.path.startswith((GROUPS, MESSAGES))
