"""The metrics of a node as Prometheus and OpenMetrics read them. No key is a label, so their number is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry


def page_of(metrics: Mapping[str, Any], web: Mapping[str, Any], accept: str) -> tuple[str, bytes]:
    """Return media type and text, in the form that `Accept` names. `metrics`: the node's answer; `web`: the web side's
    own status."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_of_node(metrics), *_of_web(web)]))
    encode, kind = choose_encoder(accept)
    return kind, encode(registry)


def _of_node(metrics: Mapping[str, Any]) -> Iterator[Metric]:
    messages = CounterMetricFamily("router_messages", "Messages by what became of them.", labels=["event", "reason"])
    for event, reason, count in metrics["messages"]:
        messages.add_metric([event, reason], count)
    yield messages
    queue = metrics["queue"]
    yield GaugeMetricFamily("router_queue_messages", "Messages that wait for their recipients.", queue["messages"])
    yield GaugeMetricFamily("router_queue_bytes", "Bytes of messages that wait.", queue["bytes"])
    limits = GaugeMetricFamily("router_queue_limit", "How much may wait.", labels=["of"])
    limits.add_metric(["messages"], queue["messages_max"])
    limits.add_metric(["bytes"], queue["bytes_max"])
    yield limits
    links = GaugeMetricFamily("router_links", "Open links, by the standing of the other end.", labels=["standing"])
    for standing, count in sorted(metrics["links"].items()):
        links.add_metric([standing], count)
    yield links
    yield GaugeMetricFamily("router_groups", "Groups that are joined here.", metrics["groups"])
    yield CounterMetricFamily("router_commits", "Transactions of the store.", metrics["commits"])
    yield CounterMetricFamily("router_log_events", "Events in the log since it began.", metrics["log_seq"])
    yield GaugeMetricFamily("router_resident_bytes", "Memory of the router's process.", metrics["resident_bytes"])
    yield GaugeMetricFamily("router_ready", "Whether the node is ready.", float(not metrics["unready"]))
    unready = GaugeMetricFamily("router_unready", "Why the node is not ready.", labels=["reason"])
    for reason, _ in metrics["unready"]:
        unready.add_metric([reason], 1)
    yield unready


def _of_web(web: Mapping[str, Any]) -> Iterator[Metric]:
    connections = GaugeMetricFamily("router_web_connections", "Connections at the doors for HTTP.", labels=["door"])
    answers = CounterMetricFamily("router_web_answers", "Requests by status.", labels=["door", "status"])
    refused = CounterMetricFamily("router_web_refused", "Requests that were refused.", labels=["door", "reason"])
    for door, one in web.items():
        connections.add_metric([door], one["connections"])
        for status, count in one["answered"].items():
            answers.add_metric([door, status], count)
        for reason, count in sorted(one["refused"].items()):
            refused.add_metric([door, reason], count)
    yield from (connections, answers, refused)


class _Collected(Collector):
    """Hands families to a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)
