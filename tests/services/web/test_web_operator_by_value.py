"""The operator's page by value: one round of questions for all who look, a sentence that says what is wrong, and no
markup of anybody's."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from rigs.web_sides import WebSide, body_of, request, status_of

from router.overview.facts import GroupRow, Metrics, NodeFacts, NodeQueue, PeerRow, ServiceRow, Status, WaitingRow
from router.overview.forecasts import Forecast, Forecasts
from router.overview.hour import GAP_S, WINDOW_S, WINDOWS, Hour
from router.overview.notices import ATTENTION, BAD, GOOD, Situation, headline, notices, waits_because
from router.service import contract as c
from services.web.core.operator.board import CALM, PATIENCE_S, QUIET_S, ROWS_OFTEN_MAX, Board
from services.web.core.operator.pages import STREAMS_MAX
from services.web.core.operator.view import PLAN_MAX, View, neighbours, queues
from services.web.core.operator.why_page import fate_of, why_page

HOSTILE = "<script>alert(1)</script>&\"'\u202e"


def key(number: int) -> str:
    return f"{number:064x}"


def queue(messages: int, **more: Any) -> WaitingRow:
    return WaitingRow(
        key(1), "cellar", messages, messages * 100, 60, limit_messages=1000, limit_bytes=1 << 30, **more
    )  # fmt: skip


def answers(name: str = "cellar", waiting: int = 5) -> dict[str, Any]:
    """Return what the router tells of a node with a neighbour of this name."""
    return {
        "metrics": {
            "messages": [["accepted", "", 7], ["refused", "expired", 2]], "unready": [], "services": [],
            "queue": {"messages": waiting, "bytes": 40, "messages_max": 100, "bytes_max": 1000},
        },
        "queue": [{
            "recipient": key(1), "name": name, "messages": waiting, "bytes": 500, "oldest_s": 3,
            "limit_messages": 100, "limit_bytes": 100_000,
        }],
        "status": {"address": key(7), "name": name, "role": "core", "uptime_s": 5, "services": []},
        "peers": [{"address": key(1), "name": name, "state": "away", "standing": "peer", "problem": f"lost {name}"}],
        "groups": [{"group": key(3), "subscriber": key(1), "local": False}],
    }  # fmt: skip


def questions(side: WebSide) -> list[c.Inquire]:
    """Return what the router was asked for the page since the last time."""
    found = [deed for deed in side.done if isinstance(deed, c.Inquire) and deed.tag.startswith("operator")]
    side.done.clear()
    return found


def tell(side: WebSide, found: dict[str, Any]) -> list[str]:
    """Answer the questions that are open; return their words."""
    asked = questions(side)
    for deed in asked:
        side.hear(c.Told(deed.tag, deed.word, found[deed.word]))
    return [deed.word for deed in asked]


def logged_in(side: WebSide) -> str:
    made = side.operator("open")
    answer = side.ask(request(f"/login?link={made['link']}"), door="operator")
    return "Cookie: " + answer.partition(b"Set-Cookie: ")[2].partition(b";")[0].decode()


def look(side: WebSide, cookie: str, path: str = "/") -> str:
    """Ask for a page, and return the connection."""
    peer = side.open("operator", "127.0.0.1:9")
    side.say(peer, request(path, cookie), door="operator")
    return peer


def events(data: bytes) -> list[tuple[str, Any]]:
    found = [one.partition(b"\ndata: ") for one in data.split(b"event: ")[1:]]
    return [(name.decode(), json.loads(text.partition(b"\n\n")[0])) for name, _, text in found]


# -- asking -------------------------------------------------------------------------------------------------------


def test_many_who_look_cost_one_round_of_questions_a_second() -> None:
    side = WebSide()
    side.tick(QUIET_S)
    assert tell(side, answers()) == ["metrics", "queue"]
    cookie = logged_in(side)
    peers = [look(side, cookie) for _ in range(5)]
    assert sorted(tell(side, answers())) == ["groups", "metrics", "peers", "queue", "status"]
    assert {status_of(side.written[peer]) for peer in peers} == {200} and not questions(side)
    streams = [look(side, cookie, "/events") for _ in range(5)]
    for number in range(1, 11):
        side.tick(1)
        assert tell(side, answers()) == ["metrics", "queue", *(["status"] * (number % CALM == 0)), "peers",
                                         *(["groups"] * (number % CALM == 0))]  # fmt: skip
        side.tick(0.1)
        assert not questions(side)
    for peer in streams:
        side.say(peer, b"", door="operator")
    side.tick(1)
    assert not questions(side)
    side.tick(QUIET_S)
    assert tell(side, answers()) == ["metrics", "queue"]


def test_clock_is_needed_each_ten_seconds_each_second_while_somebody_is_there_and_never_without_the_door() -> None:
    def wakes(side: WebSide, heard: c.Heard, at_s: float) -> list[float]:
        return [one.at_s - 1e9 for one in side.web.hear(heard, c.Now(1e9 + at_s, at_s)) if isinstance(one, c.Wake)]

    side = WebSide()
    assert wakes(side, c.Tick(), 2000) == [2000 + QUIET_S]
    assert wakes(side, c.Tick(), 2010) == [2010 + QUIET_S]
    assert wakes(side, c.Opened("listen", "a", "192.0.2.1:1"), 2011) == [2012]
    assert not wakes(side, c.Opened("listen", "b", "192.0.2.1:1"), 2011.5), "one is on its way"
    assert wakes(side, c.Came("listen", "b", b""), 2013.5) == [2014.5], "the last one was lost"
    assert not wakes(WebSide(operator=""), c.Tick(), 2000)


def test_open_page_gets_only_what_has_changed() -> None:
    side = WebSide()
    cookie = logged_in(side)
    look(side, cookie)
    tell(side, answers())
    peer = look(side, cookie, "/events")
    ((name, parts),) = events(side.written[peer])
    assert name == "parts" and {"verdict", "queues", "traffic"} <= parts.keys()
    side.tick(1)
    tell(side, answers(waiting=90))
    name, parts = events(side.written[peer])[-1]
    assert "90 messages" in parts["queues"] and "groups" not in parts and "services" not in parts


def problem_of(board: Board) -> str:
    return board.facts.problem


def test_long_answers_are_asked_for_rarely_and_a_silent_router_is_told_of() -> None:
    board, rounds = Board(), Counter[str]()
    for at in range(20):
        now = c.Now(1e9 + at, float(at))
        for asked in board.ask(now, is_watched=True):
            rounds[asked.word] += 1
            rows = [{"group": key(1), "subscriber": key(n)} for n in range(ROWS_OFTEN_MAX + 1)]
            found = {**answers(), "groups": rows}
            board.told(c.Told(asked.tag, asked.word, found[asked.word]), now)
    assert rounds["metrics"] == 20 and rounds["groups"] == 2
    list(board.ask(c.Now(0, 30.0), is_watched=True))
    assert not list(board.ask(c.Now(0, 31.0), is_watched=True)) and not problem_of(board)
    list(board.ask(c.Now(0, 30.0 + PATIENCE_S), is_watched=True))
    assert "5 s ago" in problem_of(board)
    assert board.told(c.Told("operator/metrics", "metrics", error="no node"), c.Now(0, 36.0))
    assert problem_of(board) == "no node"
    list(board.ask(c.Now(0, 40.0), is_watched=True))
    assert board.told(c.Told("operator/metrics", "metrics", {"queue": "?"}), c.Now(0, 41.0))
    assert "another version" in problem_of(board)


def test_more_open_pages_than_may_be_are_refused_with_a_reason() -> None:
    side = WebSide(connections_per_address=256)
    cookie = logged_in(side)
    peers = [look(side, cookie, "/events") for _ in range(STREAMS_MAX + 1)]
    assert status_of(side.written[peers[-2]]) == 200
    assert b"X-Reason: pages-full" in side.written[peers[-1]]


def test_login_that_ends_ends_its_open_pages_alone() -> None:
    side = WebSide()
    first, second = logged_in(side), logged_in(side)
    kept, ended = look(side, second, "/events"), look(side, first, "/events")
    side.operator("end-login", side.operator("logins")[0]["id"])
    assert events(side.written[ended])[-1][0] == "over" and side.written[ended].endswith(b"0\r\n\r\n")
    assert events(side.written[kept])[-1][0] == "parts"
    assert "error" in side.operator("end-login", "unknown")


def test_login_that_ends_ends_what_waits_for_the_router_too() -> None:
    side = WebSide()
    side.tick(QUIET_S)
    tell(side, answers())
    cookie = logged_in(side)
    peers = [look(side, cookie), look(side, cookie, "/why?id=3f9a12bc")]
    found = {deed.tag: deed.word for deed in questions(side)}
    side.operator("end-login", side.operator("logins")[0]["id"])
    for tag, word in found.items():
        side.hear(c.Told(tag, word, answers().get(word, {"message": key(9)})))
    for peer in peers:
        assert status_of(side.written[peer]) == 403 and b"login is over" in side.written[peer]


# -- what it says -------------------------------------------------------------------------------------------------


def test_page_and_fate_escape_what_others_say() -> None:
    side = WebSide()
    cookie = logged_in(side)
    page = look(side, cookie)
    tell(side, answers(HOSTILE))
    asked = look(side, cookie, "/why?id=3f9a12bc")
    (question,) = questions(side)
    recipient = {"recipient": key(1), "state": "queued", "next": HOSTILE, "attempts": 0, "hops": []}
    fate = {"message": key(9), "accepted_at": HOSTILE, "states": {"queued": 1}, "recipients": [recipient]}
    side.hear(c.Told(question.tag, "why", fate))
    for peer in (page, asked):
        text = body_of(side.written[peer]).decode()
        assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text and "\u202e" not in text
    assert "It has reached 0 of 1 recipient; 1 waits." in body_of(side.written[asked]).decode()


@pytest.mark.parametrize(
    ("states", "copies", "said"),
    [
        ({"delivered": 1}, {}, "Nobody has read it yet."),
        ({"delivered": 1}, {"acked": 2, "queued": 1}, "It was sent on to 2 nodes."),
        ({"delivered": 2}, {}, "It has reached its recipient."),
    ],
)
def test_headline_counts_nobody_for_the_service_that_carries_groups(
    states: dict[str, int], copies: dict[str, int], said: str
) -> None:
    fate = {"message": key(9), "accepted_at": "now", "states": states, "copies": copies, "carried": 1}
    assert said in str(why_page(fate_of(fate), NodeFacts()))


def test_fate_names_apps_that_have_no_queue_link_or_group() -> None:
    side = WebSide()
    asked = look(side, logged_in(side), "/why?id=3f9a12bc")
    question = next(one for one in questions(side) if one.word == "why")
    gone = {"recipient": key(5), "state": "delivered", "attempts": 1, "hops": [{"event": "delivered"}]}
    fate = {
        "message": key(9),
        "accepted_at": "now",
        "brought_by": key(6),
        "states": {"delivered": 1},
        "recipients": [gone],
    }
    side.hear(c.Told(question.tag, "why", {**fate, "names": {key(5): "laptop", key(6): "<clerk>"}}))
    text = body_of(side.written[asked]).decode()
    assert "<b>laptop</b>" in text and "What happened for laptop" in text and "&lt;clerk&gt;" in text
    assert "0000…" not in text


@pytest.mark.parametrize("path", ["/why", "/why?id=", "/why?id=a/b", f"/why?id={'a' * 100}", "/why?id=%00"])
def test_what_is_no_id_is_asked_of_nobody(path: str) -> None:
    side = WebSide()
    cookie = logged_in(side)
    questions(side)
    assert status_of(side.written[look(side, cookie, path)]) == 400 and not questions(side)


def test_unknown_message_and_silent_router_are_sentences() -> None:
    side = WebSide()
    cookie = logged_in(side)
    peer = look(side, cookie, "/why?id=3f9a12bc")
    (question,) = [one for one in questions(side) if one.word == "why"]
    side.hear(c.Told(question.tag, "why", error="no message begins so"))
    assert status_of(side.written[peer]) == 404 and b"No message begins so." in side.written[peer]
    late = look(side, cookie, "/why?id=3f9a12bc")
    side.tick(60)
    assert status_of(side.written[late]) == 503 and b"router status" in side.written[late]


def seen(facts: NodeFacts, forecast: Forecast = Forecast(), **refused: int) -> Situation:  # noqa: B008
    ended = Counter({("refused", reason.replace("_", "-")): n for reason, n in refused.items()})
    return Situation(facts, {key(1): forecast}, ended, 100)


AWAY = PeerRow(key(1), "cellar", "away", "peer", problem="connection refused")
UNREADY = Metrics(unready=(("disk-full", "the disk is nearly full; make room"),))
FAILED = ServiceRow("capd", state="running", problem="it failed", problem_age_s=40)
VERDICTS: list[tuple[Situation, str, str, str]] = [
    (
        seen(NodeFacts(peers=(PeerRow(key(1), "a", "connected", "peer"),))),
        GOOD,
        "All is well.",
        "1 neighbour is connected",
    ),
    (seen(NodeFacts(queues=(queue(3),))), GOOD, "All is well.", "what waits is for those who are away"),
    (seen(NodeFacts(problem="no answer")), BAD, "The router does not answer: no answer.", "router doctor"),
    (seen(NodeFacts(metrics=UNREADY, peers=(AWAY,))), BAD, "The disk is nearly full.", "Make room."),
    (seen(NodeFacts(peers=(AWAY,))), ATTENTION, "cellar is away: connection refused.", "router doctor"),
    (
        seen(NodeFacts(queues=(queue(950),), peers=(AWAY,))),
        BAD,
        "The queue of cellar is 95 % full.",
        "queue drop cellar",
    ),
    (
        seen(NodeFacts(queues=(queue(500),)), Forecast(1, full_s=600)),
        ATTENTION,
        "full in about 10 min.",
        "not connected",
    ),
    (seen(NodeFacts(queues=(queue(500),)), Forecast(1, full_s=600_000)), GOOD, "All is well.", ""),
    (seen(NodeFacts(), rate_limited=30), ATTENTION, "30 of them as rate-limited", "Too many messages"),
    (seen(NodeFacts(), rate_limited=5), GOOD, "All is well.", ""),
    (seen(NodeFacts(metrics=Metrics(queue=NodeQueue(95, 0, 100, 100)))), BAD, "This node holds 95 %", "queue drop"),
    (
        seen(NodeFacts(status=Status(services=(ServiceRow("capd", state="away"),)))),
        BAD,
        "service capd does not run",
        "",
    ),
    (
        seen(NodeFacts(peers=(PeerRow(key(1), "", "connected", "stranger", problem="x"),))),
        GOOD,
        "All is well.",
        "node runs",
    ),
    (seen(NodeFacts(status=Status(services=(FAILED,)))), ATTENTION, "The service capd: it failed.", ""),
    (seen(NodeFacts(status=Status(services=(replace(FAILED, problem_age_s=4000),)))), GOOD, "All is well.", ""),
    (seen(NodeFacts(peers=(PeerRow(key(1), "shut", "blocked", "peer", problem="x"),))), GOOD, "All is well.", ""),
]


@pytest.mark.parametrize(("shown", "level", "text", "remedy"), VERDICTS)
def test_headline_says_the_worst_and_what_to_do(shown: Situation, level: str, text: str, remedy: str) -> None:
    first = headline(shown, notices(shown))
    assert first.level == level and text in first.text and remedy in first.remedy


@pytest.mark.parametrize(
    ("peer", "per_s", "said"),
    [
        (None, 0, "cellar is not connected."),
        (AWAY, 0, "cellar is away: connection refused."),
        (
            replace(AWAY, problem="is its port open?", last_contact_s=7200.0),
            0,
            "cellar is away for 2 h: is its port open?",
        ),
        (replace(AWAY, state="blocked"), 0, "cellar is blocked."),
        (replace(AWAY, state="connected", in_flight=9), -1, "cellar is connected, and is handed what waits."),
        (replace(AWAY, state="connected", in_flight=9), 0, "cellar is connected, but has not confirmed 9 messages"),
    ],
)
def test_queue_says_why_it_waits(peer: PeerRow | None, per_s: float, said: str) -> None:
    facts = NodeFacts(peers=(peer,) if peer else ())
    assert waits_because(facts, queue(5), Forecast(per_s)).startswith(said)


def test_plan_draws_many_who_are_well_as_one() -> None:
    many = [PeerRow(key(n), f"edge-{n}", "connected", "client") for n in range(2, 40)]
    view = View(seen(NodeFacts(peers=(AWAY, *many))), [], Counter(), 0.0)
    text = neighbours(view)
    assert "38 more" in text and text.count("dot well") == 3 and "39 neighbours, 38 of them well" in text
    few = View(seen(NodeFacts(peers=(AWAY, *many[: PLAN_MAX - 1]))), [], Counter(), 0.0)
    assert "more" not in neighbours(few) and neighbours(few).count("dot problem") == 3


def test_queue_says_how_full_it_is_when_it_will_be_so_and_why() -> None:
    shown = View(seen(NodeFacts(queues=(queue(600),), peers=(AWAY,)), Forecast(1.0, full_s=7200)), [], Counter(), 0.0)
    text = queues(shown)
    assert "600 messages, 60\u00a0% full, oldest 1 min" in text and "full in about 2 h" in text
    assert text.count("cellar is away: connection refused.") == 2, "in the picture, and in the table beside it"


# -- the hour, and what comes -------------------------------------------------------------------------------------


def metrics(accepted: int, waiting: int = 0, refused: int = 0) -> Metrics:
    return Metrics((("accepted", "", accepted), ("refused", "expired", refused)), NodeQueue(waiting, 0, 100, 100))


def test_hour_counts_what_came_between_samples_and_forgets_what_is_older() -> None:
    hour = Hour()
    for at in range(0, 2 * WINDOWS * WINDOW_S, 10):
        hour.add(metrics(at, waiting=at, refused=at // 10), float(at))
    last = float(2 * WINDOWS * WINDOW_S - 10)
    series = hour.series(last)
    assert len(series) == WINDOWS and all(one is not None and one.accepted == WINDOW_S for one in series)
    assert series[-1] is not None and series[-1].waiting == last
    assert hour.ended(last, 600)["refused", "expired"] == 60 and hour.accepted(last, 600) == 600


def test_hour_shows_no_more_than_was_seen() -> None:
    hour = Hour()
    hour.add(metrics(1000), 0.0)
    hour.add(metrics(5), 10.0)
    hour.add(metrics(5000), 10.0 + GAP_S + 1)
    found = [one for one in hour.series(110.0) if one is not None]
    assert [one.accepted for one in found] == [5, 0], "a restart counts from zero, and a gap not at all"
    assert found[1].seen_s == 0


@pytest.mark.parametrize(
    ("depths", "limit", "full_s", "empty_s"),
    [
        ([10 * at for at in range(31)], 1000, 70.0, None),
        ([300 - 10 * at for at in range(21)], 1000, None, 10.0),
        ([10 * at for at in range(20)] + [190 - 20 * at for at in range(1, 7)], 1000, None, 3.5),
        ([7] * 30, 1000, None, None),
        ([5], 1000, None, None),
        ([0, 1], 10**9, None, None),
    ],
)
def test_forecast_goes_on_as_the_queue_went_lately(
    depths: list[int], limit: int, full_s: float | None, empty_s: float | None
) -> None:
    forecasts = Forecasts()
    for at, depth in enumerate(depths):
        row = WaitingRow(key(1), "", depth, depth, None, limit, limit)
        forecasts.add((row,), float(at))
    found = forecasts.of(row)
    assert found.full_s == (full_s if full_s is None else pytest.approx(full_s, rel=0.05))
    assert found.empty_s == (empty_s if empty_s is None else pytest.approx(empty_s, rel=0.05))


def test_queues_that_are_followed_are_bounded() -> None:
    forecasts = Forecasts()
    rows = [WaitingRow(key(n), "", n, n, None, 10_000, 10_000) for n in range(1000)]
    for at in range(200):
        forecasts.add(rows, float(at))
    assert repr(forecasts) == "<256 queues followed>"
    assert forecasts.of(rows[0]) == Forecast() and forecasts.of(rows[-1]).per_s == 0


def test_names_are_those_of_neighbours_kept_apps_and_services() -> None:
    facts = NodeFacts(
        status=Status(services=(ServiceRow("web", key(1)),)),
        peers=(PeerRow(key(2), "cellar"),),
        queues=(WaitingRow(key(3), "listener"),),
        groups=(GroupRow(key(9), key(4), subscriber_name="reader"), GroupRow(key(9), key(2))),
    )
    found = [facts.name_of(key(number)) for number in range(1, 6)]
    assert found == ["service-web", "cellar", "listener", "reader", ""]
