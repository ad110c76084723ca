"""Events about several messages: a value for each, none with the comma that separates them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from router.core.wire.crypto import MessageId
from router.service.contract import LogEvent
from router.service.deed_checks import WrongDeed, event_of

HITS = frozenset({"golf_hit"})


def hit(*holes: str | int, messages: int) -> LogEvent:
    ids = [MessageId(bytes((number,)) * 32) for number in range(messages)]
    each: dict[str, Sequence[str | int]] = {"hole": holes}
    return LogEvent("golf_hit", messages=ids, each=each)


def test_a_value_for_each_message() -> None:
    event = event_of(hit(18, "", "first", messages=3), HITS)
    ids = "".join(byte * 32 for byte in ("00", "01", "02"))
    assert event == {"event": "golf_hit", "message": ids, "fields": {"each_hole": "18,,first"}}


@pytest.mark.parametrize(
    ("holes", "messages"), [((1, 2), 3), ((1, 2, 3), 2), (("1,2",), 1), (("1,2",), 2), ((), 1), ((1,), 0)]
)
def test_another_number_of_values_or_a_comma_in_one_is_refused(holes: tuple[str | int, ...], messages: int) -> None:
    with pytest.raises(WrongDeed, match=f"of {messages} messages with {len(holes)} values of hole; note one"):
        event_of(hit(*holes, messages=messages), HITS)


def test_an_id_that_is_none_is_refused() -> None:
    with pytest.raises(WrongDeed, match='"golf_hit" with a field of a wrong type: a message id has 32 bytes, not 3'):
        event_of(LogEvent("golf_hit", messages=[b"abc"]), HITS)  # type: ignore[list-item]
