"""Health and metrics at the operator's door: one question to the router for all who ask, and a reason if it is not
ready."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rigs.web_sides import WebSide, body_of, request, status_of

from router.service import contract as c
from services.web.metrics import page_of

WELL: dict[str, Any] = {
    "messages": [["accepted", "", 7], ["refused", "expired", 2]],
    "queue": {"messages": 3, "bytes": 40, "messages_max": 100, "bytes_max": 1000},
    "links": {"local": 2, "peer": 1}, "groups": 1, "commits": 5, "log_seq": 9, "resident_bytes": 1 << 20, "unready": [],
}  # fmt: skip


def wait_for(side: WebSide, path: str, *headers: str) -> str:
    peer = side.open("operator", "127.0.0.1:9")
    side.say(peer, request(path, *headers), door="operator")
    return peer


def questions(side: WebSide) -> list[c.Inquire]:
    return [deed for deed in side.done if isinstance(deed, c.Inquire)]


def test_many_who_ask_cost_the_router_one_question_a_second() -> None:
    side = WebSide()
    peers = [wait_for(side, path) for path in ("/metrics", "/health/ready") * 5]
    (asked,) = questions(side)
    assert asked.word == "metrics" and not side.written
    side.hear(c.Told(asked.tag, "metrics", WELL))
    assert {status_of(side.written[peer]) for peer in peers} == {200}
    assert status_of(side.written[wait_for(side, "/metrics")]) == 200 and len(questions(side)) == 1
    side.tick(2)
    wait_for(side, "/metrics")
    assert len(questions(side)) == 2


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text; version=1.0.0"])
def test_metrics_are_text_or_open_metrics_and_name_no_key(accept: str) -> None:
    side = WebSide()
    peer = wait_for(side, "/metrics", f"Accept: {accept}")
    side.hear(c.Told(questions(side)[0].tag, "metrics", WELL))
    answer = side.written[peer]
    text = body_of(answer).decode()
    assert (b"openmetrics" in answer) == ("openmetrics" in accept) == text.endswith("# EOF\n")
    samples = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(text.removesuffix("# EOF\n"))
        for one in family.samples
    }
    assert samples["router_messages_total", "", "accepted"] == 7
    assert samples["router_queue_messages",] == 3 and samples["router_links", "peer"] == 1
    assert samples["router_ready",] == 1 and samples["router_messages_total", "expired", "refused"] == 2


def test_rules_for_alerts_name_metrics_that_there_are() -> None:
    rules = (Path(__file__).parents[3] / "docs/monitoring/alerts.yml").read_text()
    _, page = page_of(WELL, WebSide().operator("status"), "")
    named = set(re.findall(r"\brouter_\w+", rules))
    assert named and all(f"\n{name}" in page.decode() for name in named), named


def test_node_that_is_not_ready_says_why() -> None:
    side = WebSide()
    peer = wait_for(side, "/health/ready")
    unready = {**WELL, "unready": [["disk-full", "the disk is nearly full; make room"]]}
    side.hear(c.Told(questions(side)[0].tag, "metrics", unready))
    assert status_of(side.written[peer]) == 503
    assert json.loads(body_of(side.written[peer]))["reasons"][0]["reason"] == "disk-full"
    side.tick(2)
    away, metrics = wait_for(side, "/health/ready"), wait_for(side, "/metrics")
    side.hear(c.Told(questions(side)[-1].tag, "metrics", error="the connection was lost; ask again"))
    assert status_of(side.written[away]) == status_of(side.written[metrics]) == 503
    assert b"router-away" in side.written[away] and b"X-Reason: router-away" in side.written[metrics]


def test_router_that_does_not_answer_is_not_ready_and_the_web_side_lives() -> None:
    side = WebSide()
    peer = wait_for(side, "/health/ready")
    side.tick(6)
    assert status_of(side.written[peer]) == 503 and b"router-slow" in side.written[peer]
    assert body_of(side.written[wait_for(side, "/health/live")]) == b"alive\n"


def test_operators_door_answers_its_own_names_and_pages_alone() -> None:
    side = WebSide(url="https://hub.example/")
    for host, status in (("hub.example", 421), ("evil.example", 421), ("localhost:4181", 200)):
        answer = side.ask(request("/health/live", host=host), door="operator", address="127.0.0.1:9")
        assert status_of(answer) == status and (status == 200 or b"open it as localhost" in answer)
    secured = WebSide(url="https://hub.example/", operator="tcp://0.0.0.0:4181?certificate=c&key=k")
    assert status_of(secured.ask(request("/health/live", host="hub.example:4181"), door="operator")) == 200
    assert status_of(secured.ask(request("/health/live", host="evil.example"), door="operator")) == 421
    assert status_of(side.ask(request("/metrics"))) == 404, "the door for everybody has none"
    assert status_of(side.ask(request("/groups/a"), door="operator")) == 404
    assert status_of(side.ask(request("/", method="CONNECT"), door="operator")) == 404
    posted = side.ask(request("/metrics", method="POST", body=b""), door="operator")
    assert status_of(posted) == 405
