"""A node for pages: a process that can be killed, dialled over a WebSocket or its web side, and its invitations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from chrome import INSECURE_HOST
from rigs.ports import free_port
from rigs.web_certificates import web_certificate

from router.rig.node import NodeProcess
from router.settings.config import Role
from router.settings.home import Home

_QUICK: Mapping[str, object] = {"link.goodbye_s": 1, "verify.verifiers": 0}
GRANT = "join,store,why"
WEB_SIDE = """
[[node.services]]
name = "web"
module = "services.web"
run = "inside"

[services.web]
operator = ""
listen = "tcp://127.0.0.1:{place}"
url = "{url}"
origins = {origins}
"""
POOL = """
[[node.services]]
name = "capd"
module = "services.capd"
run = "inside"
"""


class PageNode(NodeProcess):
    """A node that pages dial at `url`."""

    def __init__(
        self,
        base: Path,
        origin: str,
        *,
        web: bool,
        pool: bool = False,
        role: Role = "edge",
        seen_at: int = 0,
        secured: bool = False,
    ) -> None:
        home, self.port = Home(base / "node"), free_port()
        home.create(role, (f"ws://127.0.0.1:{free_port()}",) if role == "core" else ())
        options = web_certificate(base, INSECURE_HOST).options if secured else ""
        place = f"{INSECURE_HOST if secured else '127.0.0.1'}:{seen_at or self.port}"
        self.site = f"{'https' if secured else 'http'}://{place}"
        self.url = f"{'wss' if secured else 'ws'}://{place}/link"
        if web:
            origins = [origin] if origin else []
            more = WEB_SIDE.format(place=f"{self.port}{options}", url=f"{self.site}/", origins=origins) + (
                POOL if pool else ""
            )
            home.config_path.write_text(f"{home.config_path.read_text()}{more}")
        flags = () if web else ("--listen", self.url)
        super().__init__("node", home, base / "node.stderr", _QUICK, *flags)

    async def invite(self, *more: str, group: str = "friends", grant: str = GRANT) -> str:
        """Return an invitation to a group, as text."""
        asked = ("invite", "--group", group, "--grant", grant, "--at", self.url, *more, "--json")
        found = (await self.run(*asked)).json
        return str(found["link"])


@asynccontextmanager
async def page_node(
    base: Path,
    origin: str = "",
    *,
    web: bool = False,
    pool: bool = False,
    role: Role = "edge",
    seen_at: int = 0,
    secured: bool = False,
) -> AsyncIterator[PageNode]:
    """Yield a node that is ready; it is killed with the block.
    `web`: its web side serves pages, and takes their links; those of `origin` too. `pool`: it has a CAPD pool.
    `seen_at`: the port at which others reach its web side, if they do so through something else. `secured`: it does so
    over TLS, with a certificate that nobody has signed, by a name that is not of this machine alone."""
    node = PageNode(base, origin, web=web, pool=pool, role=role, seen_at=seen_at, secured=secured)
    await node.start()
    try:
        yield node
    finally:
        with trio.CancelScope(shield=True):
            if node.is_running:
                await node.kill()
