"""The settings of the web side: in the sample, judged by `config check`, shown by `config show`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.parse import urljoin, urlsplit

from router.core.wire.address import is_loopback
from router.service.settings import Kind, Struct, about, door, span

from .core.http.callers import THIS_MACHINE, networks_of
from .core.http.limits import HttpLimits
from .core.http.link import LINK

_LIMITS = HttpLimits()
_ORIGIN = re.compile(r"https?://[^\s/?#]+\Z")
_TUNNEL_PORT = 4181
"""The port of the other end of a tunnel to an operator's door that is a Unix socket."""
_ANY = ("", "0.0.0.0", "::")
_APP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_KINDS: tuple[Kind, ...] = ("tcp", "tls", "unix")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Settings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The web side: pages, scripts and links over HTTP, and a door for the operator."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that a form cannot check, each with its fault."""
        if self.url and not (urlsplit(self.url).scheme in ("http", "https") and urlsplit(self.url).netloc):
            yield "url", f'url: "{self.url}" is no address of a page; write https://NAME/ or https://NAME/PATH/'
        for one in self.origins:
            if not _ORIGIN.match(one):
                yield "origins", f'origins: "{one}" is no origin; write https://NAME or http://NAME:PORT'
        yield from self._problems_of_apps()
        try:
            networks_of(self.proxies)
        except ValueError as error:
            said = f'proxies: {error}; write the address or network of each, as 192.0.2.7 or 10.0.0.0/8, or "unix"'
            yield "proxies", said
        if self.operator.startswith("tcp:") and not _is_safe_for_operators(self.operator):
            yield (
                "operator",
                f'operator: "{self.operator}" is reached from other machines, and speaks no TLS; write '
                "tcp://127.0.0.1:PORT, or add ?certificate=FILE&key=FILE",
            )

    def _problems_of_apps(self) -> Iterator[tuple[str, str]]:
        for one in self.apps:
            if not Path(one).is_absolute() or not _APP.match(Path(one).name):
                yield "apps", f'apps: "{one}" is no folder to serve; write all of its path, as /srv/notes'
        names = [Path(one).name for one in self.apps]
        if len({*names}) < len(names):
            yield (
                "apps",
                "apps: two folders of one name would be served at the same place; write one of another name",
            )

    def warnings(self, name: str, *, is_public: bool, has_neighbours: bool) -> Iterator[str]:
        """Yield warnings about folders that are not there, and about pages that others can open, but not under the name
        of this node."""
        for one in self.apps:
            if not Path(one).is_dir():
                yield f'services.{name}.apps: "{one}" is no folder, so none in apps is served; make it, or take it out'
        if self.listen and not self.url and not _is_loopback(self.listen) and self.listen.startswith("tcp:"):
            yield (
                f"services.{name}.listen is reached from other machines, but only by the number of its address, since "
                f"services.{name}.url is empty; set url to the address that they open"
            )

    def at_start(self, home: Path) -> Iterator[tuple[str, str]]:
        """Yield what `router serve` prints of the web side: where its doors are."""
        if self.listen:
            yield "pages", self.url or _shown(self.listen)
        if self.operator:
            yield "operator", _shown(self.operator)

    @property
    def page_url(self) -> str:
        """Return the address at which browsers open the pages, "" if that is not known."""
        is_one = self.listen.startswith("tcp://") and (urlsplit(self.listen).hostname or "") not in _ANY
        return self.url or (_shown(self.listen) if is_one else "")

    @property
    def link_url(self) -> str:
        """Return the URL of the transport at which pages connect."""
        return f"ws{urljoin(self.page_url, LINK[1:]).removeprefix('http')}"

    @property
    def page_note(self) -> str:
        """Return who cannot use the chat at `page_url`, with the remedy, as a clause; "" if everybody can."""
        found = urlsplit(self.page_url)
        if is_loopback(found.hostname or ""):
            said = "that link leads back to this machine: only browsers that run here can open it"
            return f"{said}; for others, serve the pages over TLS, and write services.web.url with their https address"
        if found.scheme == "http":
            said = "browsers give no keys to pages over http, so nobody can talk by that link"
            return f"{said}; serve the pages over TLS, and write services.web.url with https://"
        return ""

    @property
    def operator_url(self) -> str:
        """Return the name under which the operator's door is reached from other machines, "" if it is not."""
        return self.url if self.is_operator_tls else ""

    @property
    def is_operator_tls(self) -> bool:
        """Whether the operator's door speaks TLS."""
        return "certificate=" in self.operator

    @property
    def operator_page_url(self) -> str:
        """Return the address at which a browser opens the operator's page: over TLS by the name of `url`, else on this
        machine, perhaps through a tunnel."""
        if not self.operator.startswith("tcp://"):
            return f"http://127.0.0.1:{_TUNNEL_PORT}/"
        found = urlsplit(self.operator)
        name = urlsplit(self.operator_url).hostname or found.hostname or ""
        host = "127.0.0.1" if name in _ANY else f"[{name}]" if ":" in name else name
        return f"{'https' if self.is_operator_tls else 'http'}://{host}:{found.port}/"

    def operator_tunnel(self, home: Path) -> str | None:
        """Return what ssh is to forward to the operator's door, None if other machines reach it."""
        if not self.operator.startswith("tcp://"):
            path = home / self.operator.removeprefix("unix:").partition("?")[0]
            return f"{_TUNNEL_PORT}:{path}"
        if not _is_loopback(self.operator):
            return None
        place = self.operator.removeprefix("tcp://").partition("?")[0].rstrip("/")
        return f"{urlsplit(self.operator).port}:{place}"

    @property
    def limits(self) -> HttpLimits:
        """Return the limits of its doors."""
        return HttpLimits(
            per_address=self.connections_per_address,
            head_bytes_max=self.head_bytes_max,
            body_bytes_max=self.body_bytes_max,
            head_s=self.head_s,
            body_s=self.body_s,
            idle_s=self.idle_s,
        )

    listen: Annotated[
        str,
        door(
            "Where pages, scripts and links are served: tcp://HOST:PORT, with ?certificate=FILE&key=FILE over TLS, or "
            "unix:PATH?mode=660&group=NAME behind a proxy.",
            _KINDS,
        ),
    ] = "tcp://127.0.0.1:4180"
    operator: Annotated[
        str,
        door("Where the operator, and what monitors this node, is answered; empty: nowhere.", _KINDS),
    ] = "tcp://127.0.0.1:4181"
    url: Annotated[
        str,
        about(
            "The address by which others reach what `listen` serves, perhaps below a path, as "
            "https://hub.example/node/; empty: where it listens. By other names this node does not answer."
        ),
    ] = ""
    origins: Annotated[
        tuple[str, ...], about("Other sites whose pages may use this node, as https://chat.example.")
    ] = ()
    apps: Annotated[
        tuple[str, ...],
        about("Folders with pages of your own, as /srv/notes, which is served at /apps/notes/; read at the start."),
    ] = ()
    proxies: Annotated[
        tuple[str, ...],
        about(
            "The proxies in front of this node, whose X-Forwarded-For says where a request comes from: addresses, "
            f'networks, and "{THIS_MACHINE}" for a Unix socket.'
        ),
    ] = ()
    remember_on_disk: Annotated[
        bool,
        about(
            "Whether the latest messages of groups that tokens read are kept on disk, unsealed, so that who asks for "
            "them misses none after a restart. Without, they are in memory alone, and a restart is a gap."
        ),
    ] = False
    connections_per_address: Annotated[
        int, span(1, 256, "Connections from one IPv4 address or IPv6 /64 at one door, without proxies.")
    ] = _LIMITS.per_address
    head_bytes_max: Annotated[int, span(1024, 1 << 20, "The most bytes of a request's head.")] = _LIMITS.head_bytes_max
    body_bytes_max: Annotated[int, span(0, 1 << 24, "The most bytes of a request's body.")] = _LIMITS.body_bytes_max
    head_s: Annotated[float, span(0.1, 3600.0, "How long a client may take for the head of a request.")] = (
        _LIMITS.head_s
    )
    body_s: Annotated[float, span(0.1, 3600.0, "How long a client may take for the body of a request.")] = (
        _LIMITS.body_s
    )
    idle_s: Annotated[float, span(0.1, 3600.0, "How long a connection may be without a request.")] = _LIMITS.idle_s


def _is_loopback(url: str) -> bool:
    """Whether a door can be reached from this machine alone."""
    return url.startswith("unix:") or any(url.startswith(f"tcp://{host}:") for host in _LOOPBACK)


def _is_safe_for_operators(url: str) -> bool:
    return _is_loopback(url) or "certificate=" in url


def _shown(url: str) -> str:
    """Return a door as a browser opens it."""
    if not url.startswith("tcp://"):
        return url
    place, _, options = url.removeprefix("tcp://").partition("?")
    return f"{'https' if 'certificate=' in options else 'http'}://{place}/"
