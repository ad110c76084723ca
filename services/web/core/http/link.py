"""The link: a connection that becomes a WebSocket and goes to the router, or a sentence that says why it cannot.

Browsers show a page nothing of a WebSocket that failed, so whoever asks without one is told.
"""

from __future__ import annotations

from router.core.wire.upgrade import denial_of

from .request import Link, Reply, Request, refusal

LINK = "/link"
"""The path of the link."""


def link_reply(request: Request) -> Reply:
    """Return whether this request becomes a link, or why it does not."""
    denial = denial_of(request.head)
    if denial is None:
        return Link()
    return refusal(denial.status, "no-link", denial.text, *denial.headers, ("Access-Control-Allow-Origin", "*"))
