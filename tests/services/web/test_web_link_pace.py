"""The pace of new links by address."""

from __future__ import annotations

from services.web.core.http.limits import LINK_ADDRESSES_MAX, LINKS_AT_ONCE, LINKS_PER_S
from services.web.core.http.link import LinkPace


def test_address_begins_some_links_at_once_and_then_as_many_as_a_second_allows() -> None:
    pace = LinkPace()
    assert [pace.refusal("192.0.2.1", 10.0) for _ in range(LINKS_AT_ONCE)] == [None] * LINKS_AT_ONCE
    refused = pace.refusal("192.0.2.1", 10.0)
    assert refused is not None and refused.status == 429 and ("Retry-After", "1") in refused.headers
    assert pace.refusal("192.0.2.2", 10.0) is None, "another address is not hit"
    later = [pace.refusal("192.0.2.1", 11.0) is None for _ in range(LINKS_AT_ONCE)]
    assert sum(later) == LINKS_PER_S, "what is refused is not counted"


def test_addresses_are_forgotten_the_longest_ago_first() -> None:
    pace = LinkPace()
    for number in range(LINK_ADDRESSES_MAX + 5):
        pace.refusal(str(number), 1.0)
    assert len(pace) == LINK_ADDRESSES_MAX
