"""The metrics of a CAPD pool, from its status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def families(status: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield what is held, from which priority on, and who is connected."""
    for name, text, value in (
        ("messages", "Messages in the pool.", status["messages"]),
        ("bytes", "Bytes of the pool.", status["bytes"]),
        ("limit_bytes", "Bytes that the pool may have.", status["bytes_max"]),
        ("neighbours", "Neighbours by the protocol between Nexa nodes that are connected.", status["neighbours"]),
        ("pools", "Pools of other nodes of ours that are present.", status["pools"]),
    ):
        yield GaugeMetricFamily(f"router_capd_{name}", text, value)
    line = GaugeMetricFamily("router_capd_line", "The priority below which a message goes no further.", labels=["of"])
    for of, value in status["lines"].items():
        line.add_metric([of], value)
    yield line
    refused = CounterMetricFamily(
        "router_capd_refused_connections", "Connections refused or ended here.", labels=["reason"]
    )
    for reason, count in sorted(status["refused"].items()):
        refused.add_metric([reason], count)
    yield refused
