"""Who may see the operator's page: links that work once, and the logins that they open. Digests of both are kept."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from router.core.wire.text import clean, counted
from router.service import contract as c
from router.service.contract import Put, kept_under

LINK_S = 300
"""Seconds for which a link can be used."""
LOGIN_S, LOGIN_S_MAX = 7 * 86_400, 366 * 86_400
"""Seconds for which a login lasts if nothing else is said, and at most."""
LOGINS_MAX = 64
"""Most links and logins that are open at once."""
TOLD_S = 86_400
"""Seconds for which those that are over are still listed, and links that were used are known as such."""
SECRET_BYTES = 32
BROWSER_BYTES_MAX = 120
PREFIX = b"login/"
HOW = "`router web open`, on the machine of the node, prints a link that logs in"


class Login(Struct, frozen=True, kw_only=True):
    """A link, and the login that it has opened. `link`, `cookie`: digests of the secrets; `opened_s`, `ended_s`: 0
    while that has not happened; `lasts_s`: seconds from its opening to its end; `caller`, `browser`: who opened it."""

    id: str
    link: str
    made_s: int
    lasts_s: int
    cookie: str = ""
    opened_s: int = 0
    ended_s: int = 0
    caller: str = ""
    browser: str = ""

    @property
    def until_s(self) -> int:
        """Return when the login, or the link that has opened none, is over."""
        if self.ended_s:
            return self.ended_s
        return self.opened_s + self.lasts_s if self.opened_s else self.made_s + LINK_S

    def state(self, now_s: float) -> str:
        """Return "link" or "open", and "ended", "over" or "unused" when it is over."""
        if self.ended_s:
            return "ended"
        if self.opened_s:
            return "open" if now_s < self.until_s else "over"
        return "link" if now_s < self.until_s else "unused"

    def as_row(self, now_s: float) -> dict[str, object]:
        """Return the login as the operator reads it, without what it is known by."""
        return {
            "id": self.id,
            "state": self.state(now_s),
            "made_s": self.made_s,
            "opened_s": self.opened_s,
            "until_s": self.until_s,
            "caller": self.caller,
            "browser": self.browser,
        }


class NotLoggedIn(Exception):
    """There is no login, or none that counts; the text says why, and what to do."""


class Logins:
    """The links and logins of this web side, by their ids, the oldest first."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        found = [msgspec.json.decode(value, type=Login) for _, value in kept_under(kept, PREFIX)]
        self._by_id = {one.id: one for one in sorted(found, key=lambda one: one.made_s)}

    def __repr__(self) -> str:
        return f"<{counted(len(self._by_id), 'login')} of operators>"

    def __iter__(self) -> Iterator[Login]:
        return iter(self._by_id.values())

    # -- the operator's ------------------------------------------------------------------------------------

    def make(self, secret: bytes, lasts_s: int, now: c.Now) -> tuple[Login, str, list[Put]]:
        """Return a new link, its secret as text, and what to keep. Raises `ValueError` with a sentence."""
        if not 0 < lasts_s <= LOGIN_S_MAX:
            raise ValueError(f"a login lasts at least a second, and at most {LOGIN_S_MAX // 86_400} days")
        puts = self.forget(now)
        while len(self._by_id) >= LOGINS_MAX:
            over = next((one for one in self if one.until_s <= now.wall_s), None)
            if over is None:
                said = f"{LOGINS_MAX} links and logins are open, and no more may be"
                raise ValueError(f"{said}; `router web logins` lists them, and --end ID ends one")
            puts.append(self._remove(over))
        text = _text(secret)
        login = Login(id=_digest(text)[:12], link=_digest(text), made_s=int(now.wall_s), lasts_s=lasts_s)
        return login, text, [*puts, self._keep(login)]

    def end(self, id: str, now: c.Now) -> Put:
        """End a login, or a link that was not used; return what to keep. Raises `ValueError` with a sentence."""
        login = self._by_id.get(id)
        if login is None or login.state(now.wall_s) not in ("open", "link"):
            gone = "is over already" if login else "is not there"
            raise ValueError(f'the login "{clean(id, 40)}" {gone}; `router web logins` lists those that are open')
        return self._keep(msgspec.structs.replace(login, ended_s=int(now.wall_s)))

    def forget(self, now: c.Now) -> list[Put]:
        """Forget what has been over for long; return what to keep."""
        return [self._remove(one) for one in list(self) if one.until_s + TOLD_S <= now.wall_s]

    # -- of a request --------------------------------------------------------------------------------------

    def redeem(self, text: str, secret: bytes, caller: str, browser: str, now: c.Now) -> tuple[Login, str, Put]:
        """Return the login that a link opens, the cookie by which it is known, and what to keep. Raises
        `NotLoggedIn`."""
        digest = _digest(text)
        login = next((one for one in self if one.link == digest), None)
        if login is None:
            raise NotLoggedIn(f"this link is not known, or is long over; {HOW}")
        if login.opened_s:
            raise NotLoggedIn(f"this link was used already, and each works once; {HOW}")
        if login.state(now.wall_s) != "link":
            gone = "was ended" if login.ended_s else f"was not used within {LINK_S // 60} minutes"
            raise NotLoggedIn(f"this link {gone}; {HOW}")
        cookie = _text(secret)
        login = msgspec.structs.replace(
            login,
            cookie=_digest(cookie),
            opened_s=int(now.wall_s),
            caller=caller,
            browser=clean(browser, BROWSER_BYTES_MAX),
        )
        return login, cookie, self._keep(login)

    def judge(self, cookies: list[str], now: c.Now) -> Login:
        """Return the login to which one of these cookies belongs. Raises `NotLoggedIn`."""
        digests = {_digest(one) for one in cookies}
        found = [one for one in self if one.cookie in digests] if digests else []
        for login in found:
            if login.state(now.wall_s) == "open":
                return login
        if found:
            gone = "was ended by the operator" if found[0].ended_s else "is over"
            raise NotLoggedIn(f"this login {gone}; {HOW}")
        raise NotLoggedIn(f"this page is the operator's; {HOW}")

    def is_open(self, id: str, now: c.Now) -> bool:
        """Whether this login counts still."""
        login = self._by_id.get(id)
        return login is not None and login.state(now.wall_s) == "open"

    def _keep(self, login: Login) -> Put:
        self._by_id[login.id] = login
        return Put(PREFIX + login.id.encode(), msgspec.json.encode(login))

    def _remove(self, login: Login) -> Put:
        del self._by_id[login.id]
        return Put(PREFIX + login.id.encode(), None)


def _text(secret: bytes) -> str:
    return urlsafe_b64encode(secret).decode().rstrip("=")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
