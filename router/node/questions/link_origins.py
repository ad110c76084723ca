"""The IP address that the open link of a router comes from."""

from __future__ import annotations

from typing import Any

from router.core.wire.admin import WHENCE
from router.node.questions.question import CycleView, Questions, Respond


class LinkOriginQuestions(Questions):
    """Tells where the link of a router comes from."""

    def answers(self) -> dict[str, Respond]:
        return {WHENCE: self._whence}

    @staticmethod
    def _whence(asked: CycleView, router: str) -> dict[str, Any]:
        """Return the IP address of the other end of a router's open link; "" if there is none."""
        link = asked.router.links.to(bytes.fromhex(router)) if len(router) == 64 else None
        writer = None if link is None or link.app else asked.open_links.writers.get(link.id)
        return {"ip": writer.ip if writer is not None else ""}
