"""Who gives way at a full door: the oldest stream of the source with most of those that are not known."""

from __future__ import annotations

from router.service.door_places import StreamPlaces


def crowd(most: int, **sources: str) -> StreamPlaces:
    places = StreamPlaces(most)
    for name, source in sources.items():
        places.take(name, source)
    return places


def test_the_oldest_of_the_fullest_source_gives_way() -> None:
    places = crowd(5, a="far", b="near", c="near", d="far", e="near")
    assert places.is_full and places.first_to_go() == ("b", "near")
    places.free("b")
    places.free("b")
    assert not places.is_full and places.first_to_go() == ("a", "far"), "of two sources with as many, the earlier one"


def test_known_streams_keep_their_places_and_are_not_counted_with_their_source() -> None:
    places = crowd(4, a="near", b="near", c="near", d="far")
    for name in ("a", "b", "nobody"):
        places.mark_known(name)
    assert places.first_to_go() == ("c", "near")
    places.mark_known("c")
    assert places.first_to_go() == ("d", "far")
    places.mark_known("d")
    assert places.first_to_go() is None
    places.free("a")
    places.take("a", "near")
    assert places.first_to_go() == ("a", "near"), "what is freed is forgotten"
    assert repr(places) == "<4 of 4 places taken, 3 by known streams>"
