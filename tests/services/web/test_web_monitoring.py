"""Health and metrics at the operator's door: one question to the router for all who ask, and a reason if it is not
ready."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rigs.web_pages import CAPD_STATUS, DMQ_STATUS, WELL, WITH_DMQ
from rigs.web_sides import WebSide, body_of, request, status_of

from router.service import contract as c
from services.web.core.monitoring import ACCEPTS_MAX, METRICS_WAITING_MAX, WAITING_MAX
from services.web.core.operator.board import QUIET_S
from services.web.metrics_page import MetricsPage

DOCS = Path(__file__).parents[3] / "docs"


def wait_for(side: WebSide, path: str, *headers: str) -> str:
    peer = side.open("operator", "127.0.0.1:9")
    side.say(peer, request(path, *headers), door="operator")
    return peer


def questions(side: WebSide) -> list[c.Inquire]:
    return [deed for deed in side.done if isinstance(deed, c.Inquire) and deed.tag.startswith("monitoring")]


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


def test_what_the_operators_page_is_told_serves_metrics_and_health_too() -> None:
    side = WebSide()
    side.tick(QUIET_S)
    for deed in [deed for deed in side.done if isinstance(deed, c.Inquire)]:
        side.hear(c.Told(deed.tag, deed.word, WITH_DMQ if deed.word == "metrics" else []))
    assert status_of(side.written[wait_for(side, "/health/ready")]) == 200 and not questions(side)
    peers = [wait_for(side, "/metrics") for _ in range(5)]
    (asked,) = questions(side)
    assert (asked.word, asked.argument) == ("service", "signers")
    side.hear(c.Told(asked.tag, "service", DMQ_STATUS))
    assert {page(side, peer)["router_service_told['signers']"] for peer in peers} == {1}
    side.hear(c.Told("operator/metrics", "metrics", WELL))
    assert "router_service_told['signers']" not in page(side, wait_for(side, "/metrics"))
    side.hear(c.Told("operator/metrics", "metrics", error="no node"))
    assert status_of(side.written[wait_for(side, "/metrics")]) == 200, "it serves as long as it is fresh"
    assert len(questions(side)) == 1


def test_page_of_metrics_is_made_once_for_an_answer_and_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    made, page_of = list[str](), MetricsPage.page_of

    def counted(page: MetricsPage, node: Any, statuses: Any, accept: str) -> tuple[str, bytes]:
        made.append(accept)
        return page_of(page, node, statuses, accept)

    monkeypatch.setattr(MetricsPage, "page_of", counted)
    side = WebSide()
    forms = ["text/plain", "application/openmetrics-text", *map(str, range(ACCEPTS_MAX))]
    peers = [wait_for(side, "/metrics", f"Accept: {accept}") for accept in 3 * forms]
    side.hear(c.Told(questions(side)[0].tag, "metrics", WELL))
    assert len({body_of(side.written[peer]) for peer in peers if b"openmetrics" in side.written[peer]}) == 1
    assert [made.count(accept) for accept in forms] == [1] * ACCEPTS_MAX + [3, 3], "more forms are made each time"
    side.tick(2)
    wait_for(side, "/metrics", "Accept: text/plain")
    side.hear(c.Told(questions(side)[-1].tag, "metrics", WELL))
    assert made.count("text/plain") == 2


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
    assert samples["router_messages_total", "", "bell_rung"] == 3
    assert ("router_messages_total", "", "link_up") not in samples, "it is of the router itself"
    assert samples["router_service_messages_total", "", "accepted"] == 4
    assert samples["router_queue_messages",] == 3 and samples["router_links", "peer"] == 1
    assert samples["router_ready",] == 1 and samples["router_messages_total", "expired", "refused"] == 2
    assert samples["router_alarms", "log-gap"] == 0 and samples["router_alarms", "unaccounted"] == 2


def page(side: WebSide, peer: str) -> dict[str, float]:
    """Return the values of the page that was answered, by name and labels."""
    text = body_of(side.written[peer]).decode()
    return {
        f"{one.name}{sorted(one.labels.values())}": one.value
        for family in text_string_to_metric_families(text) for one in family.samples
    }  # fmt: skip


def test_histograms_and_the_room_that_is_left_are_told() -> None:
    side = WebSide()
    peer = wait_for(side, "/metrics")
    side.hear(c.Told(questions(side)[0].tag, "metrics", WELL))
    found = page(side, peer)
    for name in ("delivery", "commit", "loop_lag"):
        counts = [found[f"router_{name}_seconds_bucket['{bound}']"] for bound in ("0.5", "1.0", "+Inf")]
        assert counts == [3, 4, 5] and found[f"router_{name}_seconds_count[]"] == 5
        assert found[f"router_{name}_seconds_sum[]"] == 6.5
    assert found["router_store_used_bytes[]"] == 4096 and found["router_store_limit_bytes[]"] == 1 << 30
    assert found["router_disk_free_bytes[]"] == 1 << 30 and found["router_disk_reserved_bytes[]"] == 1 << 28
    assert found["router_unverified_messages[]"] == 4 and found["router_log_behind_events[]"] == 0
    assert found["router_service_up['web']"] == 1 and found["router_service_starts_total['web']"] == 2
    assert found["router_web_connections['operator', 'web']"] == 1 and found["router_service_told['web']"] == 1


def test_services_with_metrics_are_asked_for_their_status_once_a_second() -> None:
    side = WebSide()
    first, ready = wait_for(side, "/metrics"), wait_for(side, "/health/ready")
    side.hear(c.Told(questions(side)[0].tag, "metrics", WITH_DMQ))
    assert status_of(side.written[ready]) == 200 and first not in side.written
    second = wait_for(side, "/metrics")
    _, asked = questions(side)
    assert (asked.word, asked.argument) == ("service", "signers")
    side.hear(c.Told(asked.tag, "service", DMQ_STATUS))
    for peer in (first, second, wait_for(side, "/metrics")):
        found = page(side, peer)
        assert found["router_dmq_mempool_messages['signers']"] == 3 and found["router_service_told['signers']"] == 1
    assert len(questions(side)) == 2


@pytest.mark.parametrize("answers", ["never", "with an error", "nonsense"])
def test_service_that_does_not_tell_its_status_is_left_out_and_named(answers: str) -> None:
    side = WebSide()
    peer = wait_for(side, "/metrics")
    side.hear(c.Told(questions(side)[0].tag, "metrics", WITH_DMQ))
    tag = questions(side)[1].tag
    if answers == "with an error":
        side.hear(c.Told(tag, "service", error="the service signers is not running"))
    elif answers == "nonsense":
        side.hear(c.Told(tag, "service", ["nothing"]))
    else:
        side.tick(1)
        assert peer not in side.written
        side.tick(1.5)
        side.hear(c.Told(tag, "service", DMQ_STATUS))
    found = page(side, peer)
    assert found["router_service_told['signers']"] == 0 and found["router_service_told['web']"] == 1
    assert found["router_service_up['signers']"] == 1 and not any(name.startswith("router_dmq_") for name in found)


def test_silent_service_holds_up_no_question_about_health() -> None:
    side = WebSide()
    wait_for(side, "/metrics")
    side.hear(c.Told(questions(side)[0].tag, "metrics", WITH_DMQ))
    side.tick(1.5)
    ready = wait_for(side, "/health/ready")
    side.hear(c.Told(questions(side)[-1].tag, "metrics", WITH_DMQ))
    assert status_of(side.written[ready]) == 200
    assert [one.word for one in questions(side)] == ["metrics", "service", "metrics"], "nobody is asked twice"


def page_of_all_kinds() -> str:
    """Return a page of metrics with those of all services."""
    services = [*WITH_DMQ["services"], {"name": "pool", "module": "services.capd", "state": "running", "starts": 1}]
    side = WebSide()
    side.ask(request("/nope"))
    statuses = {"web": side.operator("status"), "signers": DMQ_STATUS, "pool": CAPD_STATUS}
    node = {**WITH_DMQ, "services": services, "unready": [["disk-full", "the disk is full"]]}
    node["backup"] = {"age_s": 60, "bytes": 1 << 20, "made": 3, "failed": 1, "overdue": False}
    return MetricsPage().page_of(node, statuses, "")[1].decode()


def test_papers_name_metrics_that_there_are() -> None:
    known = {line.split()[2] for line in page_of_all_kinds().splitlines() if line.startswith("# TYPE")}
    known |= {f"{one}{end}" for one in known if one.endswith("_seconds") for end in ("_bucket", "_sum", "_count")}
    for name in ("monitoring/alerts.yml", "monitoring/dashboard.json", "web.md"):
        named = set(re.findall(r"\brouter_\w+", (DOCS / name).read_text()))
        assert named and named <= known, (name, named - known)


def test_rules_and_dashboard_ask_for_labels_that_there_are() -> None:
    families = list(text_string_to_metric_families(page_of_all_kinds()))
    labels = {one.name: {"instance", "job", "service", *one.labels} for family in families for one in family.samples}
    panels = json.loads((DOCS / "monitoring/dashboard.json").read_text())["panels"]
    asked = [one["expr"] for panel in panels for one in panel["targets"]]
    asked += re.findall(r"expr: (.*)", (DOCS / "monitoring/alerts.yml").read_text())
    seen = 0
    for expr in asked:
        for name, within in re.findall(r"\b(router_\w+)(?:\{([^}]*)\})?", expr):
            by = ",".join(re.findall(r"\b(?:by|ignoring) ?\(([^)]*)\)", expr)) if expr.count("router_") == 1 else ""
            named = {one.partition("=")[0].rstrip("~!").strip() for one in f"{within},{by}".split(",")} - {""}
            assert named <= labels.get(name, set()), (expr, name, named)
            seen += bool(named)
    assert seen > 20


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


@pytest.mark.parametrize("reason", ["disk-full", "no-uplink", "doubted-clock", "log-behind"])
def test_each_reason_of_the_node_is_passed_on(reason: str) -> None:
    side = WebSide()
    peer = wait_for(side, "/health/ready")
    side.hear(c.Told(questions(side)[0].tag, "metrics", {**WELL, "unready": [[reason, "a sentence"]]}))
    assert status_of(side.written[peer]) == 503
    assert json.loads(body_of(side.written[peer]))["reasons"] == [{"reason": reason, "detail": "a sentence"}]
    assert page(side, wait_for(side, "/metrics"))[f"router_unready['{reason}']"] == 1


def test_node_that_stops_is_draining() -> None:
    side = WebSide()
    ready, metrics = wait_for(side, "/health/ready"), wait_for(side, "/metrics")
    side.hear(c.Told(questions(side)[0].tag, "metrics", error="the node stops", is_stopping=True))
    assert status_of(side.written[ready]) == status_of(side.written[metrics]) == 503
    assert [one["reason"] for one in json.loads(body_of(side.written[ready]))["reasons"]] == ["draining"]
    assert b"X-Reason: draining" in side.written[metrics]


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
    assert status_of(side.ask(request("/", method="CONNECT"), door="operator")) == 405
    body = side.ask(request("/metrics", "Content-Length: 100", method="POST"), door="operator")
    assert status_of(body) == 400 and b"X-Reason: body" in body, "it is not waited for"
    posted = side.ask(request("/metrics", method="POST", body=b""), door="operator")
    assert status_of(posted) == 405


def test_places_of_askers_who_have_gone_are_given_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.web.core.monitoring.WAITING_MAX", 3)
    side = WebSide()
    gone = [wait_for(side, "/health/ready") for _ in range(3)]
    assert status_of(side.written[wait_for(side, "/health/ready")]) == 503, "they may wait still"
    for peer in gone:
        side.say(peer, b"", door="operator")
    asks = wait_for(side, "/health/ready")
    assert asks not in side.written, "it waits in their place"
    assert [status_of(side.written[peer]) for peer in gone] == [503] * 3, "each may only have ended its sending side"
    side.hear(c.Told(questions(side)[0].tag, "metrics", WELL))
    assert status_of(side.written[asks]) == 200


def test_many_who_wait_for_metrics_leave_places_for_who_asks_for_readiness() -> None:
    side = WebSide()
    peers = [side.open("operator", f"127.0.0.{n % 4 + 1}:9") for n in range(WAITING_MAX)]
    for peer in peers:
        side.say(peer, request("/metrics"), door="operator")
    assert sum(peer in side.written for peer in peers) == WAITING_MAX - METRICS_WAITING_MAX
    assert wait_for(side, "/health/ready") not in side.written
