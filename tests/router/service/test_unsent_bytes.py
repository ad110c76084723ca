"""The bytes that wait at a door have a limit together; the stream for which most wait goes first."""

from __future__ import annotations

from router.service.unsent_bytes import UnsentBytes


async def test_stream_for_which_most_waits_goes_once_too_much_waits_at_its_door() -> None:
    warned: list[str] = []
    unsent = UnsentBytes(lambda door, text: warned.append(f"{door} {text}"), 100)
    for door, name, size in (("desk", "1", 40), ("desk", "2", 50), ("porch", "3", 100), ("desk", "1", -5)):
        unsent.change(door, name, size)
        assert unsent.first_to_go(door) == ""
    unsent.change("desk", "4", 16)
    assert unsent.first_to_go("desk") == "2" and unsent.first_to_go("porch") == ""
    assert unsent.first_to_go("desk") == "2"
    said = "desk keeps more than 100 bytes for those who do not read: the stream with most (50 bytes) is closed"
    assert warned[0] == said
    unsent.forget("desk", "2")
    unsent.change("desk", "2", -50)
    assert unsent.first_to_go("desk") == ""
    assert repr(unsent) == "<151 bytes wait at 2 doors>"


def test_nothing_is_kept_of_streams_for_which_nothing_waits() -> None:
    unsent = UnsentBytes(lambda _door, _text: None, 100)
    for name in ("1", "2"):
        unsent.change("desk", name, 9)
    unsent.change("desk", "1", -9)
    unsent.forget("desk", "2")
    unsent.forget("desk", "2")
    assert repr(unsent) == "<0 bytes wait at 0 doors>"
