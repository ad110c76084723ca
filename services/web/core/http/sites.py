"""The names under which a node answers, and the pages that may use it: a browser is told to ask by whatever page it
shows, so the Host and the Origin of a request say whose errand it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from .request import Answer, Request, refusal, shown

IP_CHARS_MAX = 80
"""Characters of the longest IP address, with the name of its interface, and more."""
HOSTS_MAX = 256
"""Hosts of which it is remembered whether they are an IP address."""
_LOCAL = "localhost"
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?\Z")
"""HOST, or HOST:PORT with digits."""
_ASKING = ("GET", "HEAD", "OPTIONS")


class Sites:
    """Judges Host and Origin. `url`: where others reach this node, "" if that is where it listens; `origins`: other
    pages that may use it; `setting`: the name of the section that holds them, "" for a door that others do not reach.
    """

    def __init__(self, url: str, origins: Sequence[str], setting: str) -> None:
        found = urlsplit(url)
        self._url = url
        self._host = host_of(found.netloc)
        self._own = f"{found.scheme}://{found.netloc}".lower() if url else ""
        self._origins = frozenset(one.lower().rstrip("/") for one in origins)
        self._setting = setting
        self.prefix = unquote(found.path.rstrip("/"))

    def __repr__(self) -> str:
        return f"<sites: {self._url or 'where it listens'}, {len(self._origins)} others>"

    def refusal(self, request: Request) -> Answer | None:
        """Return why this request is none of this node's business, None if it is."""
        return self._host_refusal(request) or self._origin_refusal(request)

    def allowed(self, request: Request) -> str:
        """Return the origin of a page from elsewhere that may use this node, "" if the request is of none."""
        origin = request.header(b"origin")
        return origin if origin.lower() in self._origins else ""

    def _host_refusal(self, request: Request) -> Answer | None:
        """Refuse names that are not this node's: by such a name a page of anybody would be one of this node's own.

        A number is nobody's name, so it is allowed."""
        authority = request.authority
        host = host_of(authority) if _AUTHORITY.match(authority) else authority
        if host == self._host or host == _LOCAL or host.endswith(f".{_LOCAL}") or _is_ip(host[:IP_CHARS_MAX]):
            return None
        if not self._setting:
            said = (
                f'this door does not answer as "{shown(host)}": open it as localhost, or by the number of its address'
            )
            return refusal(421, "other-host", said)
        now = f', which now says "{self._url}"' if self._url else ""
        said = f'this node does not answer as "{shown(host)}": the address by which others reach it belongs into the'
        return refusal(421, "other-host", f"{said} setting {self._setting}.url{now}")

    def _origin_refusal(self, request: Request) -> Answer | None:
        is_asking = request.method in _ASKING and not request.header(b"upgrade")
        origin = request.header(b"origin").lower()
        if is_asking or not origin or origin == self._own or origin in self._origins:
            return None
        scheme, _, authority = origin.partition("://")
        is_here = scheme in ("http", "https") and authority == request.authority.lower()
        if is_here and not self._own.endswith(f"://{authority}"):  # one that is must be of the same scheme
            return None
        if not self._setting:
            return refusal(403, "other-origin", f'a page of "{shown(origin)}" may not use this door')
        said = f'a page of "{shown(origin)}" may not use this node: if it is to, name it in the setting'
        return refusal(403, "other-origin", f"{said} {self._setting}.origins")


def host_of(authority: str) -> str:
    """Return the host in HOST:PORT, in small letters, without brackets or a last dot."""
    inside = authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]
    return inside.lower().rstrip(".")


@lru_cache(HOSTS_MAX)
def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
