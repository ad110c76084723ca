"""The URLs of WebSockets: `wss://host:port/path?option=value`. Options are for this end alone, and are never sent."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl, quote

from msgspec import Struct
from msgspec.structs import replace

from router.core.wire.address import is_host
from router.transport import tcp
from router.transport.contract import InvalidUrl, after, tcp_address

LINK_PATH = "/link"
"""Where a link is if the URL names no path."""
_REST = re.compile(r"(?P<place>[^/?#]*)(?P<path>/[!-\"$->@-~]*)?(?:\?(?P<options>[!-\"$-~]*))?")
_PORT = re.compile(r".*:[0-9]*")


class WebUrl(Struct, frozen=True):
    """The parts of such a URL. `host` is empty where every interface is meant."""

    scheme: str
    host: str
    port: int
    path: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the name by which the other end knows itself, as DNS writes it: the option `host`, else the host of
        the URL."""
        return self.options.get("host", self.host).encode("idna").decode()

    def at(self, host: str, port: int, options: Mapping[str, str]) -> str:
        """Return the URL with another host, port and options."""
        other = replace(self, host=host, port=port, options=options)
        return str(other)

    def __str__(self) -> str:
        options = "&".join(f"{name}={quote(value, safe='/:.-_~')}" for name, value in self.options.items())
        return f"{self.scheme}://{tcp.host_port(self.host, self.port)}{self.path}{'?' if options else ''}{options}"


def web_url(url: str, scheme: str, port: int, options: Collection[str]) -> WebUrl:
    """Return the parts of a URL of that scheme, with its usual port and the options that it may have. Raises
    `InvalidUrl`."""
    found = _REST.fullmatch(after(f"{scheme}://", url))
    if found is None:
        form = f"{scheme}://host/path?option=value"
        raise InvalidUrl(f"{url!r} has a sign that no URL may have; write {form}, other letters as %C3%A9")
    place = found["place"]
    if place and not _PORT.fullmatch(place.rpartition("]")[2]):
        place = f"{place}:{port}"
    host, number = tcp_address(f"{scheme}://{place}", scheme)
    given = dict(parse_qsl(found["options"] or "", keep_blank_values=True))
    if unknown := sorted(set(given) - set(options)):
        raise InvalidUrl(f"{unknown[0]!r} in {url!r} is no option of {scheme}; there are {', '.join(sorted(options))}")
    if "host" in given and not is_host(given["host"]):
        raise InvalidUrl(f"{given['host']!r}, the host in {url!r}, is no name that DNS knows; mend it")
    return WebUrl(scheme, host, number, found["path"] or LINK_PATH, given)


async def resolved(url: str, parts: WebUrl, *, timeout_s: float) -> list[str]:
    """Return the URLs of the addresses that the host has, each with the name in its option `host`; the URL itself if it
    has an IP address. Raises `ConnectFailed`."""
    if not parts.host or tcp.is_literal(parts.host):
        return [url]
    found = await tcp.look_up(parts.host, parts.port, timeout_s=timeout_s)
    return [parts.at(ip, parts.port, {**parts.options, "host": parts.name}) for ip in found]
