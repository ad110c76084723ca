"""The screen of `router top` by value: every line fits, the worst stands on top, and no two names are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cli.distinct_names import distinct
from router.cli.top.screen import SORTS, Moment, in_json, ordered, screen, wrapped
from router.core.wire.text import printable
from router.overview.facts import AlarmRow, Metrics, NodeFacts, NodeQueue, PeerRow, ServiceRow, Status, WaitingRow
from router.overview.forecasts import Forecast
from router.overview.notices import Situation
from router.overview.rates import RateCounter

HOSTILE = "\x1b[2J<b>\u202e"


def key(number: int) -> str:
    return f"{number:064x}"


def moment(
    peers: Sequence[PeerRow] = (), queues: Sequence[WaitingRow] = (), forecasts: dict[str, Forecast] | None = None
) -> Moment:
    status = Status(key(9), "core", "hub", 7200.0, (ServiceRow("pubsub", state="running"), ServiceRow("web")))
    waits = sum(one.messages for one in queues)
    facts = NodeFacts(status, tuple(peers), tuple(queues), metrics=Metrics(queue=NodeQueue(waits, 70, 1000, 1000)))
    ended = Counter({("refused", "not-authorised"): 3})
    return Moment(Situation(facts, forecasts or {}, ended, 100), RateCounter().rates(), 1_800_000_000.0)


def waiting(number: int, messages: int, name: str = "") -> WaitingRow:
    return WaitingRow(key(number), name, messages, 100 * messages, 60.0, 1000, 1 << 20)


def texts(shown: Moment, width: int = 80, height: int | None = 24, **more: Any) -> list[str]:
    return [line.text for line in screen(shown, width, height, **more)]


PEERS = (
    PeerRow(key(1), "attic", "connected", "peer", "tls://10.0.0.1:4100", rtt_ms=0.4),
    PeerRow(key(2), "cellar", "away", "peer", problem="connection refused"),
    PeerRow(key(3), "app", "connected", "local"),
)
BUSY = moment(PEERS, (waiting(2, 120, "cellar"), waiting(4, 950, "garden")), {key(2): Forecast(2.0, full_s=440.0)})


def test_what_is_printed_is_not_cut() -> None:
    """Into a pipe there is no window that could be made higher."""
    alarms = tuple(
        AlarmRow("bad", f"thing {number} is {'very ' * 40}wrong; mend thing {number}") for number in range(9)
    )
    facts = NodeFacts(Status(key(9), "core", "hub", alarms=alarms))
    shown = Moment(Situation(facts, {}, Counter(), 100), RateCounter().rates(), 1_800_000_000.0)
    lines = texts(shown, height=None)
    assert [line[-13:] for line in lines[1:10]] == [f"Mend thing {number}." for number in range(9)]
    assert "make the window higher" in "".join(texts(shown))


def test_worst_stands_on_top_with_what_to_do() -> None:
    lines = texts(BUSY)
    assert lines[0] == "hub, core, up 2 h" + " " * 51 + "08:00:00 UTC"
    assert lines[1].startswith("This node holds") or lines[1].startswith("The queue of garden is 95 % full.")
    assert "services  pubsub, web (away)" in lines and "lately    3 refused not-authorised" in lines
    at = next(number for number, line in enumerate(lines) if line.startswith("NAME"))
    assert [line.split()[:3] for line in lines[at + 1 : at + 4]] == [
        ["garden", "away", "950"], ["cellar", "away", "120"], ["attic", "connected", "0"],
    ]  # fmt: skip
    assert lines[-1].startswith("q quit") and len(lines) == 24


@pytest.mark.parametrize(
    ("sort", "names"),
    [("problem", "garden cellar attic"), ("waits", "garden cellar attic"), ("change", "cellar attic garden"),
     ("name", "attic cellar garden")],
)  # fmt: skip
def test_rows_are_sorted_as_was_asked(sort: str, names: str) -> None:
    assert [row.name for row in ordered(BUSY.rows, sort)] == names.split()


def test_app_for_which_nothing_waits_is_no_row() -> None:
    assert key(3) not in [row.key for row in BUSY.rows]


def test_selected_row_says_why_its_messages_wait_and_when_its_queue_is_full() -> None:
    lines = screen(BUSY, 80, 30, selected=key(2))
    [row] = [line for line in lines if line.style == "selected"]
    said = " ".join(line.text for line in lines[-6:])
    assert row.text.startswith("cellar")
    assert "cellar is away: connection refused." in said and "its queue is full in about 7 min" in said
    assert "addr1" in said and all(len(line.text) <= 80 for line in lines)


def test_more_rows_than_fit_are_shown_around_the_selected_one() -> None:
    many = moment([PeerRow(key(number), f"peer{number:03}", "connected", "peer") for number in range(500)])
    shown = texts(many, selected=key(321))
    assert len(shown) == 24 and any(line.startswith("peer321") for line in shown)
    assert len(texts(many, height=None)) > 500


@given(st.lists(st.text(max_size=70), max_size=8), st.integers(20, 200), st.integers(1, 60), st.sampled_from(SORTS))
def test_every_line_fits_whatever_neighbours_are_called(names: list[str], width: int, height: int, sort: str) -> None:
    peers = [PeerRow(key(n), name, "away", "peer", problem=name) for n, name in enumerate(names)]
    shown = moment(peers, [waiting(n, n, name) for n, name in enumerate(names)])
    lines = screen(shown, width, height, sort=sort, selected=key(0))
    assert len(lines) <= max(height, 5) and all(len(line.text) <= width for line in lines)
    assert all(line.text == printable(line.text) for line in lines)


def test_what_a_neighbour_says_moves_no_cursor() -> None:
    assert all(
        line.isprintable() for line in texts(moment([PeerRow(key(1), HOSTILE, "away", "peer", problem=HOSTILE)]))
    )


@given(st.lists(st.text("ab", min_size=1, max_size=40), max_size=6), st.integers(22, 40))
def test_no_two_names_in_a_column_are_alike(names: list[str], width: int) -> None:
    found = distinct([(name, f"{number:08x}" * 8) for number, name in enumerate(names)], width)
    assert len(set(found)) == len(names) and all(len(one) <= width for one in found)


def test_long_name_is_cut_in_its_middle() -> None:
    assert distinct([("northern-gatehouse-a", key(1)), ("northern-gatehouse-b", key(2))], 12) == [
        "northe…use-a", "northe…use-b",
    ]  # fmt: skip


def test_text_is_cut_between_words_where_it_can_be() -> None:
    assert wrapped("one two threefour", 8) == ["one two", "threefou", "r"]
    assert wrapped("", 8) == [""]


def test_programs_get_the_same() -> None:
    found = in_json(BUSY)
    assert found["headline"]["level"] == "bad" and found["queue"] == {"messages": 1070, "bytes": 70}
    assert [(row["name"], row["messages"], row["problem"]) for row in found["rows"]] == [
        ("garden", 950, None), ("cellar", 120, "connection refused"), ("attic", 0, None),
    ]  # fmt: skip
