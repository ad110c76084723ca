"""Which circles are told of, from the acceptances of messages that nobody had first."""

from __future__ import annotations

from typing import Any

from spark_analytics.judgement.circles import claims

A, B, C, D = "abcd"


def edges(name: str, *pairs: str, carriers: int = 0, is_multicast: bool = True) -> list[dict[str, Any]]:
    """Return that each router (the first letter of a pair) had a message from another one (the second)."""
    return [
        {
            "id": name, "router": pair[0], "brought": pair[1], "seq": 10 * ord(pair[0]) + int(name), "is_within": True,
            "is_multicast": is_multicast, "carriers": carriers,
        }
        for pair in pairs
    ]  # fmt: skip


def told(*found: list[dict[str, Any]], sound: str = "abcd") -> list[tuple[str, str, int, str]]:
    rows = claims([edge for one in found for edge in one], set(sound))
    assert all(row["first"]["seq"] == 10 * ord(row["router"]) + int(row["first"]["id"]) for row in rows)
    assert all(row["first"]["accepted_seq"] == 10 * ord(row["peer"]) + int(row["first"]["id"]) for row in rows)
    return [(row["router"], row["peer"], row["count"], row["first"]["id"]) for row in rows]


def test_circles_of_two_and_three_name_their_routers_in_order() -> None:
    assert told(edges("1", "ab", "ba"), edges("2", "ab", "ba")) == [(A, B, 2, "1"), (B, A, 2, "1")]
    assert told(edges("3", "ac", "ba", "cb")) == [(A, C, 1, "3"), (C, B, 1, "3"), (B, A, 1, "3")]


def test_who_had_a_message_from_a_circle_is_not_in_it() -> None:
    assert told(edges("1", "ab", "ba", "cb", "dc")) == [(A, B, 1, "1"), (B, A, 1, "1")]
    assert told(edges("1", "ab", "ba", "cd", "dc")) == [(A, B, 1, "1"), (B, A, 1, "1"), (C, D, 1, "1"), (D, C, 1, "1")]


def test_a_log_that_is_not_whole_and_what_came_in_carriers_make_no_circle() -> None:
    assert told(edges("1", "ab", "ba"), sound="acd") == []
    assert told(edges("1", "ab", "ba", carriers=1), edges("2", "ab", "ba", carriers=1)) == []
    assert told(edges("1", "ab", "ba", carriers=1, is_multicast=False)) == [(A, B, 1, "1"), (B, A, 1, "1")]
    found = [edges(str(number), "ab", "ba", carriers=1) for number in range(1, 4)]
    assert told(*found) == [(A, B, 1, "1"), (B, A, 1, "1")]


def test_a_circle_outside_of_the_time_span_is_not_told() -> None:
    old = [{**edge, "is_within": False} for edge in edges("1", "ab", "ba")]
    assert told(old) == []


def test_an_own_message_is_no_circle() -> None:
    assert told(edges("1", "aa")) == []
