"""Who gives way at a full door: of the source with most, the stream that has not talked, or least lately."""

from __future__ import annotations

from router.service.door_places import StreamPlaces


def crowd(most: int, **sources: str) -> StreamPlaces:
    places = StreamPlaces(most)
    for name, source in sources.items():
        places.take(name, source)
    return places


def goes(places: StreamPlaces) -> tuple[str, str]:
    found = places.first_to_go()
    assert found is not None
    return found.name, found.source


def test_the_oldest_of_the_fullest_source_gives_way() -> None:
    places = crowd(5, a="far", b="near", c="near", d="far", e="near")
    assert places.is_full and goes(places) == ("b", "near")
    places.free("b")
    places.free("b")
    assert not places.is_full and goes(places) == ("a", "far"), "of two sources with as many, the earlier one"


def test_known_streams_keep_their_places_and_are_not_counted_with_their_source() -> None:
    places = crowd(4, a="near", b="near", c="near", d="far")
    for name in ("a", "b", "nobody"):
        places.mark_known(name)
    assert goes(places) == ("c", "near")
    places.mark_known("c")
    assert goes(places) == ("d", "far")
    places.mark_known("d")
    assert places.first_to_go() is None
    places.free("a")
    places.take("a", "near")
    assert goes(places) == ("a", "near"), "what is freed is forgotten"
    assert repr(places) == "<4 of 4 places taken, 3 by known streams>"


def test_of_sources_with_as_many_a_silent_stream_goes_before_one_that_talks() -> None:
    places = crowd(4, honest="here", a="s1", b="s2", c="s3")
    places.talked("honest")
    assert str(places.first_to_go()) == "4 sources have 1 each, and of these the oldest silent one, from s1,"
    for newest in range(4, 300):
        gone = goes(places)[0]
        assert gone != "honest", f"displaced by silent stream {newest}"
        places.free(gone)
        places.take(f"n{newest}", f"s{newest}")


def test_of_streams_that_all_talk_the_one_that_has_been_idle_longest_goes() -> None:
    places = crowd(3, a="s1", b="s2", c="s3")
    for name in ("a", "b", "c", "a", "nobody"):
        places.talked(name)
    assert (
        str(places.first_to_go()) == "3 sources have 1 each, and of these the one that has been idle longest, from s2,"
    )
    places.mark_known("b")
    assert goes(places) == ("c", "s3")


def test_the_source_with_most_gives_way_even_if_its_streams_talk() -> None:
    places = crowd(3, a="far", b="near", c="near")
    places.talked("b")
    places.talked("c")
    assert str(places.first_to_go()) == "the one that has been idle longest from near, where most (2) come from,"
