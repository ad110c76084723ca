"""Every sentence about an advertisement that does not count: its revision, its times, and each kind of address."""

from __future__ import annotations

import pytest
from samples.core import ALICE

from router.core.wire.address import AddressSource, parse_address
from router.core.wire.address import refusal_of as refusal_of_address
from router.core.wire.advert import Advertisement, make_advertisement, refusal_of
from router.core.wire.lifetime import expiry_min
from router.core.wire.reasons import ADVERT_ADDRESS, ADVERT_STALE, Reason

NOW_S, DAY_S = 1_790_000_040, 86_400
CLOCK = "so a clock is wrong: that router's or this node's"
IN_2106_MIN = expiry_min((1 << 32) - 1)


def advert(rev: int = 5, *, ttl_s: int = 600, until_min: int = expiry_min(NOW_S + DAY_S)) -> Advertisement:
    return make_advertisement(ALICE, [parse_address("tls://a.org:1")], rev=rev, ttl_s=ttl_s, expiry_min=until_min)


@pytest.mark.parametrize(
    ("heard", "reason", "said"),
    [
        (advert(4), ADVERT_STALE, "an advertisement of that router with a greater revision is known"),
        (advert(5, ttl_s=1), ADVERT_STALE, "another advertisement of that router with the same revision is known"),
        (
            advert(until_min=expiry_min(NOW_S - DAY_S)), Reason.EXPIRY_PASSED,
            "the advertisement has expired, or a clock is wrong: that router's or this node's",
        ),
        (
            advert(until_min=IN_2106_MIN), Reason.EXPIRY_TOO_FAR,
            f"the advertisement expires in 28992.7 days; 7.0 are the most, {CLOCK}",
        ),
    ],
)  # fmt: skip
def test_one_that_does_not_count_says_why(heard: Advertisement, reason: Reason, said: str) -> None:
    assert refusal_of(heard, advert(5), NOW_S, 7 * DAY_S) == (reason, said)


REMEDY = "; name an address in node.advertise at which others reach that node"
PRIVATE = "lies in a private network, and counts only if the LAN, an invitation, an app or the operator names it"
LOOPBACK = "leads back to the machine that dials it, and counts only where the node listens on loopback itself"
NO_HOST = "names no host, which only a datagram on the LAN may do: it means the source of the datagram"
NOBODY = "is a multicast, broadcast or reserved address, at which no router can be"
LINK_LOCAL = "is link-local, and counts only as the source of a datagram"


@pytest.mark.parametrize(
    ("place", "said", "counts_from"),
    [
        ("10.1.2.3:1", PRIVATE, {"DATAGRAM", "SENDER", "INVITATION", "HINT", "NEIGHBOUR", "OPERATOR"}),
        ("nas.local:1", PRIVATE, {"DATAGRAM", "SENDER", "INVITATION", "HINT", "NEIGHBOUR", "OPERATOR"}),
        ("127.0.0.1:1", LOOPBACK, set()), ("localhost:1", LOOPBACK, set()), ("[::1]:1", LOOPBACK, set()),
        ("0.0.0.0:1", NO_HOST, {"DATAGRAM"}), ("[::]:1", NO_HOST, {"DATAGRAM"}),
        ("224.0.0.1:1", NOBODY, set()), ("255.255.255.255:1", NOBODY, set()), ("[ff02::1]:1", NOBODY, set()),
        ("169.254.1.1:1", LINK_LOCAL, {"SENDER"}), ("[fe80::1]:1", LINK_LOCAL, {"SENDER"}),
        ("45.0.0.1:1", "", {one.name for one in AddressSource}),
    ],
)  # fmt: skip
def test_an_address_that_its_bringer_may_not_name_says_why(place: str, said: str, counts_from: set[str]) -> None:
    for source in AddressSource:
        refused = refusal_of_address(parse_address(f"tls://{place}"), source)
        counts = source.name in counts_from
        assert refused == (None if counts else (ADVERT_ADDRESS, f"{place} {said}{REMEDY}")), source
