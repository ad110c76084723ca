"""The nodes with which sampling begins: links in the settings, as `router id --link` prints them."""

from __future__ import annotations

from collections.abc import Iterable

from router.core.wire.advert import Advertisement
from router.core.wire.invitation import parse_peer_link
from router.core.wire.text import BadText
from services.discovery.core.known import SERVICE


def read_seeds(links: Iterable[str]) -> list[Advertisement]:
    """Return the advertisements in links of the settings; their times do not count, as the operator wrote them.

    Raise `BadText` for a text that is no link of a node that runs discovery."""
    return [_seed(link, f"services.discovery.seeds[{at}]") for at, link in enumerate(links)]


def _seed(link: str, place: str) -> Advertisement:
    remedy = "write the link that `router id --link` prints there"
    try:
        found = parse_peer_link(link)
    except BadText as error:
        raise BadText(f"{place}: {error}") from None
    if not isinstance(found, Advertisement):
        raise BadText(f"{place} is an invitation, which `router peer add` takes; {remedy}")
    if SERVICE not in found.services:
        raise BadText(f"{place} names no discovery service, so nobody could be asked there; {remedy} once it runs one")
    return found
