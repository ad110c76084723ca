"""The sections of the page on single findings."""

from __future__ import annotations

from typing import Any

import pytest

from spark_analytics.report.page import render
from spark_analytics.report.page.queues import Queue, forecast

HOUR = 492_582  # 12 March 2026, 06:00 UTC, in hours since 1970


@pytest.mark.parametrize(
    ("waiting", "full", "due", "words"),
    [
        (1_700, 2_460, 720, "Full in 41 min, oldest expires in 12 min."),
        (1_700, 2_460, None, "Full in 41 min at this rate."),
        (2_500, 0, 0, "Full, oldest expires now."),
        (2_500, 0, None, "Full."),
        (5, None, 90, "Not filling; oldest expires in 1.5 min."),
        (5, None, None, "Not filling."),
        (0, None, None, "Empty at the end."),
    ],
)
def test_a_queue_says_what_comes_first(waiting: int, full: float | None, due: float | None, words: str) -> None:
    assert forecast(Queue("r", "a", [waiting], 0, 2_500, full, due)) == words


def test_a_filling_queue_is_drawn_on_towards_its_limit() -> None:
    windows = [{"window": 60 * HOUR + 10 * i, "open": 100 * i, "depth_max": 0} for i in range(10)]
    queue = {"router": "a", "recipient": "b", "open": 900, "limit": 1_000, "full_in_s": 600, "oldest_due_s": 300}
    page = render({"step_minutes": 10, "queues": [{**queue, "windows": windows}]})
    assert "Full in 10 min, oldest expires in 5 min." in page
    assert page.count('class="line ahead"') == page.count(">limit 1,000<") == page.count(">oldest expires<") == 1
    level = render({"step_minutes": 10, "queues": [{**queue, "full_in_s": None, "windows": windows}]})
    assert 'class="line ahead"' not in level


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-2_000_000, 3_000_000, "may agree"),
        (-5_000_000, None, "may agree"),
        (41_000_000, 44_000_000, "close"),
        (None, -5_000_000_000, "apart"),
        (5_000_000_000, 6_000_000_000, "apart"),
        (5_000_000_000, -5_000_000_000, "one was set"),
    ],
)
def test_clocks_are_apart_only_if_no_allowed_difference_is_small(low: Any, high: Any, words: str) -> None:
    page = render({"clocks": [{"router": "a", "recipient": "b", "lower_ns": low, "upper_ns": high}]})
    assert f"<b>{words}</b>" in page
    assert ("Set the clock that is off" in page) == (words in ("apart", "one was set"))
    assert ("changed by at least 10 s" in page) == (words == "one was set")


def test_of_a_chain_that_cannot_be_followed_it_is_said_what_to_do() -> None:
    def page(followed: int, unknown: int, broken: int) -> str:
        counts = {"acked": 10, "followed": followed, "broken": broken, "unknown": unknown}
        return render({"custody": [{"router": "a", "recipient": "b", **counts}]})

    remedy = "Give the audit the newest logs of both routers, for the same time: 9 cannot be followed"
    assert remedy in page(1, 9, 0)
    assert remedy in page(0, 9, 1) and "A broken chain means" in page(0, 9, 1)
    assert "cannot be followed" not in page(10, 0, 0)


def test_only_chains_that_are_not_whole_are_drawn_beside_their_sum() -> None:
    def chain(to: str, followed: int, broken: int) -> dict[str, Any]:
        return {"router": "a", "recipient": to, "acked": 10, "followed": followed, "broken": broken, "unknown": 0}

    sound = render({"custody": [chain("b", 10, 0), chain("c", 10, 0)]})
    assert "20 of 20 handed over are found" in sound
    assert sound.count("<b>10</b>") == 0
    harmed = render({"custody": [chain("b", 10, 0), chain("c", 7, 3)]})
    assert "17 of 20 handed over are found" in harmed
    assert "3 are not, though that log is whole." in harmed
    assert harmed.count("<b>10</b>") == 1


@pytest.mark.parametrize(("hours", "title"), [(1, "06:00 to 07:00 UTC, by neighbour"), (8, "Turned away per hour")])
def test_few_hours_of_abuse_are_compared_by_neighbour(hours: int, title: str) -> None:
    abuse = [
        {"hour": HOUR + i, "peer": "p", "reason": "bad-signature", "event": "refused", "count": 5} for i in range(hours)
    ]
    page = render({"abuse": abuse})
    assert title in page
    assert f"<b>{5 * hours}</b>" in page


def test_what_services_refused_is_drawn_by_network_and_counts_with_the_messages() -> None:
    rows = [
        {"hour": HOUR, "peer": "p", "reason": "bad-signature", "event": "refused", "count": 5},
        {"hour": HOUR, "prefix": "192.0.2.0/24", "reason": "lan:flood", "event": "discovery_refused", "count": 45},
    ]
    page = render({"abuse": rows, "reasons": [{**rows[0], "router": "a", "at_door": True}]})
    assert "50 were turned away. 192.0.2.0/24 brought 90.0 % of them" in page
    assert "the most frequent reason is “lan:flood” (45)." in page


def test_what_was_turned_away_is_apart_from_deliveries_that_were_refused() -> None:
    reasons = [
        {"router": "a", "event": "refused", "reason": reason, "at_door": at_door, "count": n}
        for reason, at_door, n in (("bad-signature", True, 7_000), ("peer-refused", False, 31))
    ]
    abuse = [{"hour": HOUR, "peer": "p", "reason": "bad-signature", "event": "refused", "count": 6_000}]
    page = render({"reasons": reasons, "abuse": abuse})
    assert "The most frequent reason was “peer-refused” (refused), with 31." in page
    assert "7,000 were turned away. The largest counts are drawn, 6,000 of these." in page


def test_pruned_is_not_missing_and_problems_beyond_the_summary_are_counted() -> None:
    log = {"router": "a", "segments": 3, "first": 1, "last": 1_000, "whole": True, "pruned_to": 400, "problems": []}
    page = render({"logs": [log], "problems": ["/log/x:7: odd"], "problems_more": 41})
    assert "The log is whole." in page
    assert "<title>pruned: 1 to 400, deleted on purpose</title>" in page
    assert "<title>missing:" not in page
    assert "and 41 more" in page


@pytest.mark.parametrize(("full_in_s", "is_red"), [(3600.0, True), (9 * 86_400.0, False), (None, False)])
def test_a_queue_is_red_only_if_it_is_full_within_days(full_in_s: float | None, is_red: bool) -> None:
    window = {"window": "2026-03-12T06:00:00+00:00", "open": 5, "depth_max": 5}
    queue = {
        "router": "a" * 64, "recipient": "b" * 64, "limit": 10, "full_in_s": full_in_s, "oldest_due_s": None,
        "windows": [window],
    }  # fmt: skip
    page = render({"owed": 5, "pending": 5, "residual": 0, "queues": [queue], "windows": [window]})
    assert (
        "panel" in page and (" alarm" in page.partition('<section id="queues"')[2].partition("</section>")[0]) is is_red
    )


def test_what_connected_once_is_not_restless() -> None:
    flaps = [{"router": "a" * 64, "subject": "b" * 64, "changes": changes} for changes in (2, 1)]
    assert "No link or route came and went more than once." in render({"owed": 1, "residual": 0, "flaps": flaps})


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        ({}, "Nothing is lost."),
        ({"holes": [{"router": "a", "first_seq": 7, "last_seq": 9, "why": "no file"}]}, "Bring the missing parts"),
        ({"problems": ["/logs/one: cannot be listed: Permission denied"]}, "Look at the problems with the files"),
    ],
)
def test_deliveries_are_not_said_to_be_all_where_logs_have_gaps(gap: dict[str, Any], said: str) -> None:
    window = {"window": 29_000_000, "owed": 3, "delivered": 2, "expired": 1}
    page = render({"step_minutes": 10, "windows": [window], "owed": 3, **gap})
    figure = page.partition('id="deliveries-time"')[2].partition("</figure>")[0]
    assert said in figure and ("Nothing is lost" in figure) is (not gap)


def test_page_says_what_was_judged_and_how() -> None:
    head = {"router": "ab" * 32, "event": 1234, "digest": "cd" * 32}
    run = {
        "command": "router audit <logs>",
        "router": "0.1.0",
        "signed_by": "addr1x",
        "tables": {"delivery": "ef" * 32},
    }
    page = render({"heads": [head], "run": run, "as_of": "2026-03-12T06:00:00Z"})
    for digest in ("ab" * 32, "cd" * 32, "ef" * 32):
        assert f'<code class="whole">{digest}</code>' in page
    assert "<td>command</td>" in page and "router audit &lt;logs&gt;" in page and "router audit-verify DIR" in page
    assert 'content:"Delivery audit as of 12 Mar 2026, 06:00 UTC"' in page
    assert "No log has a sealed event." in render({})
    assert "audit-verify" not in render({"run": {"command": "router audit logs"}})
    odd = render({"as_of": '";}*{', "heads": "none", "run": {"tables": ["x"], "command": 5}})
    assert 'content:"Delivery audit"' in odd and "How it was made" not in odd


def test_windows_in_which_nothing_was_owed_are_counted_and_not_listed() -> None:
    """A message that is dated two days off does not fill pages with zeros."""
    windows = [{"window": 60 * HOUR + at, "router": "a", "delivered": 3} for at in (0, 10, 2 * 1440)]
    page = render({"step_minutes": 30, "windows": windows, "owed": 9, "delivered": 9})
    table = page.partition("Deliveries by window and state</caption>")[2].partition("</table>")[0]
    assert table.partition("<tbody>")[2].count("<tr>") == 2
    assert ">95 windows in which nothing was owed are left out.</p>" in page
    page = render({"step_minutes": 30, "windows": windows[:1], "owed": 3, "delivered": 3})
    assert "left out" not in page.partition("Deliveries by window and state")[2].partition("</section>")[0]
