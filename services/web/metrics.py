"""The metrics of the web side itself, from its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def families(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield how its doors are used."""
    connections = GaugeMetricFamily("router_web_connections", "Connections at the doors for HTTP.", labels=["door"])
    answers = CounterMetricFamily("router_web_answers", "Requests by status.", labels=["door", "status"])
    refused = CounterMetricFamily("router_web_refused", "Requests that were refused.", labels=["door", "reason"])
    for door, one in status.items():
        connections.add_metric([door], one["connections"])
        for code, count in one["answered"].items():
            answers.add_metric([door, code], count)
        for reason, count in sorted(one["refused"].items()):
            refused.add_metric([door, reason], count)
    yield from (connections, answers, refused)
