"""How far a wall clock was set while its machine ran, by the monotonic clock of each run."""

from __future__ import annotations

from spark_analytics.judgement.clock_moves import NS_CAP, moves_while_up
from spark_analytics.judgement.schema import GRACE_NS

Stretch = dict[str, int | str | None]


def stretch(boot: str, seq: int, mono: tuple[int, int], apart_ns: tuple[int, int], router: int = 1) -> Stretch:
    return {
        "router": router, "boot": boot, "seq": seq, "first_mono": mono[0], "last_mono": mono[1],
        "min_apart_ns": apart_ns[0], "max_apart_ns": apart_ns[1],
    }  # fmt: skip


def test_moves_are_the_span_of_all_files_of_a_run() -> None:
    files = [stretch("a", 1, (10, 20), (5, 5)), stretch("a", 7, (21, 30), (5, 12)), stretch("b", 1, (0, 9), (3, 3), 2)]
    assert moves_while_up(files) == {1: 7, 2: 0}


def test_a_clock_that_was_set_between_two_runs_of_one_machine_has_moved() -> None:
    runs = [stretch("b", 7, (21, 30), (12, 13)), stretch("a", 1, (10, 20), (5, 6)), stretch("c", 9, (40, 50), (8, 8))]
    assert moves_while_up(runs) == {1: 8}


def test_a_machine_that_was_started_again_tells_nothing_of_its_clock_in_between() -> None:
    runs = [stretch("a", 1, (1000, 2000), (5, 6)), stretch("b", 7, (10, 20), (9000, 9004))]
    assert moves_while_up(runs) == {1: 1 + 4 + GRACE_NS}


def test_lines_without_a_monotonic_time_tell_nothing_and_a_sum_has_a_limit() -> None:
    nothing: Stretch = {**stretch("a", 1, (0, 0), (0, 0)), "min_apart_ns": None, "max_apart_ns": None}
    assert moves_while_up([nothing]) == {}
    assert moves_while_up([stretch("a", 1, (0, 9), (-(1 << 62), 1 << 62))]) == {1: NS_CAP}
