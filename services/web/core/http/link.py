"""The link: a connection that becomes a WebSocket and goes to the router, or a sentence that says why it cannot.

Browsers show a page nothing of a WebSocket that failed, so whoever asks without one is told.
"""

from __future__ import annotations

from math import ceil

from router.core.wire.upgrade import denial_of

from .limits import LINK_ADDRESSES_MAX, LINKS_AT_ONCE, LINKS_PER_S
from .request import Answer, Link, Reply, Request, refusal

LINK = "/link"
"""The path of the link."""


class LinkPace:
    """The rate at which each address may begin links."""

    def __init__(self) -> None:
        self._spent_until_s = dict[str, float]()  # when all that an address has begun is made up for

    def __repr__(self) -> str:
        return f"<pace of links of {len(self)} addresses>"

    def __len__(self) -> int:
        return len(self._spent_until_s)

    def refusal(self, address: str, mono_s: float) -> Answer | None:
        """Count a link that begins now; return why it may not, then it is not counted."""
        spent_until_s = max(self._spent_until_s.get(address, mono_s), mono_s) + 1 / LINKS_PER_S
        over_s = spent_until_s - mono_s - LINKS_AT_ONCE / LINKS_PER_S
        if over_s > 1e-6:  # of rounding
            said = f"{address} begins more than {LINKS_PER_S:g} links a second, and no more may be; connect again later"
            headers = ("Retry-After", str(ceil(over_s))), ("Access-Control-Allow-Origin", "*")
            return refusal(429, "links-too-fast", said, *headers, is_last=True)
        self._spent_until_s.pop(address, None)
        self._spent_until_s[address] = spent_until_s
        if len(self._spent_until_s) > LINK_ADDRESSES_MAX:
            del self._spent_until_s[next(iter(self._spent_until_s))]
        return None


def link_reply(request: Request) -> Reply:
    """Return whether this request becomes a link, or why it does not."""
    denial = denial_of(request.head)
    if denial is None:
        return Link()
    return refusal(denial.status, "no-link", denial.text, *denial.headers, ("Access-Control-Allow-Origin", "*"))
