"""The metrics of a node, from its answer to `metrics`. No key is a label, so their number is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from router.core.log.alarms import LEVELS
from router.core.log.events import STATE_EVENTS

SECONDS = {
    "delivery": "From acceptance until a recipient has settled a message.",
    "commit": "How long transactions of the store took.",
    "loop_lag": "By how much the router's loop woke too late, looked at each second.",
}


def families(metrics: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield all of them but those of the services' own."""
    yield from _of_messages(metrics)
    yield from _of_load(metrics)
    yield from _of_backup(metrics.get("backup"))
    yield from _of_services(metrics["services"])
    alarms = GaugeMetricFamily("router_alarms", "Alarms of the node about itself that stand.", labels=["alarm"])
    for kind in LEVELS:
        alarms.add_metric([kind], metrics.get("alarms", {}).get(kind, 0))
    yield alarms
    superseded = "Neighbours at which another key has the place of this node's."
    yield GaugeMetricFamily("router_superseded_neighbours", superseded, metrics.get("superseded_at", 0))
    yield GaugeMetricFamily("router_ready", "Whether the node is ready.", float(not metrics["unready"]))
    unready = GaugeMetricFamily("router_unready", "Why the node is not ready.", labels=["reason"])
    for reason, _ in metrics["unready"]:
        unready.add_metric([reason], 1)
    yield unready


def _of_messages(metrics: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield what became of messages, and what services note; the events of the router itself are no messages."""
    for name, text, rows in (
        ("messages", "Messages of people and apps by what became of them.", metrics["messages"]),
        ("service_messages", "Messages between services of routers, likewise.", metrics.get("of_services", ())),
    ):
        messages = CounterMetricFamily(f"router_{name}", text, labels=["event", "reason"])
        for event, reason, count in rows:
            if event not in STATE_EVENTS:
                messages.add_metric([event, reason], count)
        yield messages
    queue = metrics["queue"]
    yield GaugeMetricFamily("router_queue_messages", "Messages that wait for their recipients.", queue["messages"])
    yield GaugeMetricFamily("router_queue_bytes", "Bytes of messages that wait.", queue["bytes"])
    limits = GaugeMetricFamily("router_queue_limit", "How much may wait.", labels=["of"])
    limits.add_metric(["messages"], queue["messages_max"])
    limits.add_metric(["bytes"], queue["bytes_max"])
    yield limits
    for name, text in SECONDS.items():
        yield _histogram(f"router_{name}_seconds", text, metrics["seconds"][name])


def _histogram(name: str, text: str, counted: Mapping[str, Any]) -> Metric:
    pairs = zip(counted["bounds"], counted["within"], strict=True)
    buckets = [*((str(bound), count) for bound, count in pairs), ("+Inf", counted["count"])]
    return HistogramMetricFamily(name, text, buckets, counted["sum"])


def _of_load(metrics: Mapping[str, Any]) -> Iterator[Metric]:
    links = GaugeMetricFamily("router_links", "Open links, by the standing of the other end.", labels=["standing"])
    for standing, count in sorted(metrics["links"].items()):
        links.add_metric([standing], count)
    yield links
    store, disk = metrics["store"], metrics["disk"]
    for name, text, value in (
        ("groups", "Groups that are joined here.", metrics["groups"]),
        ("unverified_messages", "Messages that wait for their signatures to be checked.", metrics["unverified"]),
        ("store_used_bytes", "Bytes of the store that are in use.", store["used_bytes"]),
        ("store_limit_bytes", "Bytes that the store may use.", store["bytes_max"]),
        ("disk_free_bytes", "Free bytes of the store's disk.", disk["free_bytes"]),
        ("disk_reserved_bytes", "Bytes of that disk that are to stay free.", disk["free_bytes_min"]),
        ("log_behind_events", "Events that wait in the store, as the log could not be written.", metrics["log_behind"]),
        ("resident_bytes", "Memory of the router's process.", metrics["resident_bytes"]),
    ):
        yield GaugeMetricFamily(f"router_{name}", text, value)
    yield CounterMetricFamily("router_commits", "Transactions of the store.", metrics["commits"])
    yield CounterMetricFamily("router_log_events", "Events in the log since it began.", metrics["log_seq"])


def _of_backup(backup: Mapping[str, Any] | None) -> Iterator[Metric]:
    """Yield those of the snapshots that the node makes by itself; none if it makes none."""
    if not backup:
        return
    if backup["age_s"] is not None:
        yield GaugeMetricFamily("router_backup_age_seconds", "Age of the newest snapshot.", backup["age_s"])
    overdue = "Whether the newest snapshot is older than twice its time."
    yield GaugeMetricFamily("router_backup_overdue", overdue, float(backup["overdue"]))
    yield GaugeMetricFamily("router_backup_bytes", "Size of the newest snapshot.", backup["bytes"])
    snapshots = CounterMetricFamily("router_backups", "Snapshots that this node made by itself.", labels=["result"])
    for name in ("made", "failed"):
        snapshots.add_metric([name], backup[name])
    yield snapshots


def _of_services(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    running = GaugeMetricFamily("router_service_up", "Whether a service runs.", labels=["service"])
    starts = CounterMetricFamily("router_service_starts", "How often a service was started.", labels=["service"])
    for one in rows:
        running.add_metric([one["name"]], float(one["state"] == "running"))
        starts.add_metric([one["name"]], one["starts"])
    yield from (running, starts)
