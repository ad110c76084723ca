"""What services of routers say to each other is counted apart, by value."""

from __future__ import annotations

from router.core.log.events import Accepted, Outward, Turned
from router.core.log.service_traffic import OPEN_MAX, TrafficCounts
from router.core.wire.reasons import Reason

SERVICE, APP, AWAY = b"s" * 32, b"a" * 32, b"w" * 32


def traffic() -> TrafficCounts:
    return TrafficCounts(lambda signer, destination: SERVICE in (signer, destination))


def accepted(first: int, signer: bytes, destination: bytes | None, count: int = 1) -> Accepted:
    words, to = bytes(4 * count), (AWAY, APP)
    kind = 1 if destination is None else 0
    return Accepted(1, 1, first, kind, signer, destination, APP, 1, to, bytes(32 * count), words, words, words)


def ended(parcel: int, event: str, count: int = 1, to: bytes = AWAY, reason: Reason | None = Reason.LEFT) -> Outward:
    return Outward(1, 1, event, to, 1, ((parcel, count),), reason, 0, 0, 0, parcel)


def test_messages_of_a_service_and_to_one_are_counted_until_their_last_delivery_has_ended() -> None:
    one = traffic()
    one.add([accepted(1, SERVICE, AWAY, 2), accepted(3, AWAY, SERVICE), accepted(4, APP, AWAY), accepted(5, APP, None)])
    one.add([ended(1, "forwarded", 2), ended(1, "dropped", 2), ended(4, "expired"), ended(5, "refused")])
    assert one.of_services.events() == {"accepted": 3, "forwarded": 2, "dropped": 2}
    one.add([ended(1, "acked", 2, APP, None), ended(3, "refused"), ended(1, "acked", 2, APP, None)])
    assert one.of_services.events() == {"accepted": 3, "forwarded": 2, "dropped": 2, "acked": 2, "refused": 1}
    assert one.of_services.reasons("refused") == {"left": 1}
    assert one.minus(one.of_services).events() == {"accepted": 2, "expired": 1, "refused": 1, "acked": 2}


def test_what_is_turned_away_counts_if_a_service_has_signed_it() -> None:
    one = traffic()
    one.add([Turned(1, 1, "refused", APP, 1, Reason.LEFT, b"", 3, SERVICE)])
    one.add([Turned(1, 1, "refused", APP, 1, Reason.LEFT, b"", 5, signer) for signer in (APP, None)])
    assert one.of_services.events() == {"refused": 3}


def test_a_bounded_number_of_open_parcels_is_remembered() -> None:
    one = traffic()
    one.add([accepted(first, SERVICE, AWAY) for first in range(OPEN_MAX + 9)])
    one.add([ended(0, "dropped"), ended(9, "dropped")])
    assert one.of_services.events() == {"accepted": OPEN_MAX + 9, "dropped": 1}
    assert repr(one).endswith(f"{OPEN_MAX} of their parcels open")


def test_what_waits_to_be_logged_is_counted_on_the_side_on_which_its_event_will_be() -> None:
    """Counts never fall as sums that wait are written: a reader would take that for a start."""
    one = traffic()
    waiting = [Turned(1, 1, "refused", APP, 1, Reason.LEFT, b"", n, signer) for n, signer in ((3, SERVICE), (5, APP))]
    before = [side.rows() for side in one.apart(waiting)]
    one.add(waiting)
    assert before == [side.rows() for side in one.apart([])] == [[("refused", "left", 5)], [("refused", "left", 3)]]
