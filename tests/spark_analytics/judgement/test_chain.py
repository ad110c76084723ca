"""Spans of sequence numbers, and where one router's seals hold two histories."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.judgement.chain import Seal, fits, fork, missing

SPANS = st.lists(
    st.tuples(st.integers(-2, 22), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1])), max_size=8
)


@given(st.integers(0, 10), st.integers(-1, 20), SPANS)
def test_what_is_missing_is_what_no_span_covers(first: int, last: int, spans: list[tuple[int, int]]) -> None:
    covered = {seq for start, end in spans for seq in range(start, end + 1)}
    found = missing(first, last, spans)
    assert [seq for start, end in found for seq in range(start, end + 1)] == sorted(
        set(range(first, last + 1)) - covered
    )
    assert all(one[1] + 1 < two[0] for one, two in pairwise(found))


def seal(first: int, last: int, digest: str, before: str | None = None, kept: bool = True, segments: int = 1) -> Seal:
    return Seal("r", first, last, before, digest, segments, kept, f"{digest}{first}")


A, B, C = seal(1, 4, "a"), seal(5, 8, "b", "a"), seal(9, 12, "c", "b")
PRUNED = [seal(1, 4, "a", kept=False), seal(5, 8, "b", "a", kept=False), seal(1, 8, "b", kept=False, segments=2)]


@pytest.mark.parametrize(
    "seals",
    [[], [A], [A, B, C], [A, C], [B], [*PRUNED, C], [A, B, C, *PRUNED], [PRUNED[2], B, C], [PRUNED[0], C]],
    ids=range(9),
)
def test_one_history(seals: list[Seal]) -> None:
    assert fork(seals) is None


OTHER_B = seal(5, 8, "B", "a")
FORKS = {
    "two that go on from one": ([A, B, C, OTHER_B], 5, {"b5", "B5"}),
    "two of different lengths": ([A, B, C, seal(5, 20, "B", "a")], 5, {"b5", "B5", "c9"}),
    "one across two": ([A, B, C, seal(3, 10, "x", "y")], 1, {"a1", "x3"}),
    "two that begin and end alike": ([A, B, seal(1, 4, "a", "z")], 1, {"a1"}),
    "two from the start": ([A, B, seal(1, 2, "x")], 1, {"a1", "x1"}),
    "a predecessor that is another": ([A, OTHER_B, C], 5, {"c9"}),
    "a first one with a predecessor": ([seal(1, 4, "a", "z"), B], 1, {"a1"}),
    "a pruned one that ended otherwise": ([A, B, seal(5, 8, "B", "a", kept=False)], 5, {"B5"}),
    "folded ones that ended otherwise": ([A, B, seal(1, 8, "B", kept=False, segments=2)], 5, {"B1"}),
    "pruned ones that do not follow": ([PRUNED[0], seal(5, 8, "b", "z", kept=False)], 5, {"b5"}),
    "pruned ones that differ": ([seal(1, 8, "b", kept=False), seal(5, 8, "B", "a", kept=False), C], 5, {"B5"}),
}


@pytest.mark.parametrize("name", FORKS)
def test_two_histories_have_a_first_event_and_name_the_files(name: str) -> None:
    seals, first, paths = FORKS[name]
    for order in list(permutations(seals))[::7]:
        found = fork(order)
        assert found and (found[0], {path for path, _ in found[1]}) == (first, paths)
        assert found == fork(seals)


def test_who_holds_what_otherwise_is_said() -> None:
    _, texts = fork([A, B, OTHER_B]) or (0, [])
    why = "two nodes use one key, or a log was copied and both went on, or it was rewritten"
    assert texts == [
        ("B5", f"holds the events 5 to 8, which b5 holds otherwise: {why}"),
        ("b5", f"holds the events 5 to 8, which B5 holds otherwise: {why}"),
    ]


def test_what_follows_must_name_what_is_there() -> None:
    assert fits("a", 5, [A]) and fits("z", 7, [A]) and fits(None, 1, []) and fits(None, 7, [])
    assert not fits("b", 5, [A]) and not fits(None, 5, [A]) and not fits("a", 1, [])
