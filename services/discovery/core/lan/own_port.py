"""The port at which neighbours on local networks reach this node: open while some network is allowed."""

from __future__ import annotations

from router.service.contract import Deed, Now
from router.service.roles.discovery import Listen, Listening

LISTENED_AT = "tls://:{port}"
LISTEN_AGAIN_S = 10.0


class OwnPort:
    """Has the router listen. `port`: 0 while it does not; `problem`: why not; `due_s`: when it is asked again."""

    def __init__(self) -> None:
        self.port = 0
        self.problem = ""
        self.due_s: float | None = None
        self._wanted: int | None = None

    def __repr__(self) -> str:
        return f"<own port: {self.port}{self.problem and f', {self.problem}'}>"

    @property
    def is_wanted(self) -> bool:
        return self._wanted is not None

    def want(self, port: int | None) -> list[Deed]:
        """Listen at this port (0: any), or not at all; while it is listened at one, another counts from the next
        start on."""
        if (port is None) == (self._wanted is None):
            return []
        self._wanted, self.port, self.due_s = port, 0, None
        return [Listen("" if port is None else LISTENED_AT.format(port=port))]

    def listens(self, news: Listening, now: Now) -> None:
        self.problem = news.problem
        self.due_s = now.mono_s + LISTEN_AGAIN_S if news.problem and self.is_wanted else None
        port = news.url.rpartition(":")[2]
        self.port = int(port) if port.isdecimal() and self.is_wanted else 0

    def tick(self, now: Now) -> list[Deed]:
        """Ask again for a port that was taken."""
        if self.due_s is None or self.due_s > now.mono_s:
            return []
        self.due_s, wanted, self._wanted = None, self._wanted, None
        return self.want(wanted)
