"""The metrics of a DMQ node as Prometheus reads them, under dmq-node's names where they mean the same.

dmq-node's tracing library ends its names in `_counter` and `_int`, unless its backend is written with `nosuffix`; that
concerns those that it has, too. Labels are bounded: reasons and consumers are few by themselves, and of pools those
with the most live messages, or the certificates that end first, are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from router.service import contract as c
from router.service import exposition
from services.dmq.core.holdings import Holdings
from services.dmq.core.peers.hop_delay import BOUNDS_S

POOLS_MAX = 100
"""How many pools are named in one metric."""
ENDING_PERIODS = 4
"""A certificate ends soon if so few KES periods are left of it."""
PREFIX = "dmq_node_"
PAGE_PREFIX = "router_dmq_"
"""The beginning of names on the node's own page, which are in Prometheus's style throughout."""


class PageFacts(Struct, frozen=True):
    """What is asked of the node for one page: the answer to `status`, and its holdings."""

    status: dict[str, Any]
    holdings: Holdings
    wall_s: float


class Metrics:
    """Makes the page. `prefix` and `has_suffix` as a dmq-node's configuration has them."""

    def __init__(self, prefix: str = PREFIX, *, has_suffix: bool = True) -> None:
        self._prefix = prefix
        self._suffix = "_counter" if has_suffix else ""

    def page(self, facts: PageFacts) -> tuple[str, bytes]:
        """Return media type and text."""
        return exposition.page_of([*self.of_status(facts.status), *self._of_pools(facts)])

    def of_status(self, status: dict[str, Any]) -> Iterator[Metric]:
        """Yield what the answer to `status` tells."""
        name = self._prefix
        rejected = status["rejected"]
        accepted, total = status["accepted"], sum(rejected.values())
        yield from self._of_reference(accepted, total)
        yield GaugeMetricFamily(f"{name}mempool_messages", "Live messages.", value=status["mempool"]["messages"])
        yield GaugeMetricFamily(f"{name}mempool_bytes", "Bytes of live messages.", value=status["mempool"]["bytes"])
        reasons = CounterMetricFamily(f"{name}rejections", "Messages that were not taken.", labels=["reason"])
        for reason, count in rejected.items():
            reasons.add_metric([reason], count)
        yield reasons
        yield CounterMetricFamily(
            f"{name}verifications", "Messages whose signatures were verified.", status["verified"]
        )
        yield GaugeMetricFamily(f"{name}clients", "Connections of clients.", value=status["clients"]["connected"])
        closed = status["clients"]["broken_off"]
        yield CounterMetricFamily(f"{name}clients_broken_off", "Connections that the node closed.", closed)
        away = status["clients"]["without_place"]
        yield CounterMetricFamily(f"{name}clients_without_place", "Those of them that found no place.", away)
        gave = status["clients"]["gave_way"]
        yield CounterMetricFamily(f"{name}clients_gave_way", "Idle ones of them that gave way to new ones.", gave)
        yield from self._of_consumers(status["consumers"])
        yield from self._of_stake(status["stake"])
        yield from self._of_nodes(status["nodes"])
        yield from self._of_turns(status["nodes"])
        yield from self._of_carriage(status["nodes"])
        if status["group"]:
            yield from self._of_group(status["group"])

    def _of_nodes(self, nodes: dict[str, Any]) -> Iterator[Metric]:
        """Yield what is told of other nodes; what dmq-node has, too, as it names that."""
        for name, text, value in _reference_gauges(nodes):
            yield GaugeMetricFamily(self._gauge(name), text, value=value)
        text = "Nodes that have asked this one for messages over their present connection."
        yield GaugeMetricFamily(f"{self._prefix}nodes_fetching", text, value=nodes["fetch_from_us"])
        for what, text in (
            ("duplicates", "Bodies that came again, since a first node was late with them."),
            ("spaced_out", "Messages that expired before a node would take them."),
        ):
            yield CounterMetricFamily(f"{self._prefix}nodes_{what}", text, nodes[what])

    def _of_turns(self, nodes: dict[str, Any]) -> Iterator[Metric]:
        """Yield how much waits to be announced to other nodes, and how many have dialled in at each door."""
        turns, name = nodes["waiting_turns"], f"{self._prefix}nodes"
        text = "Nodes to which a message waits to be announced, in its pool's turn."
        yield GaugeMetricFamily(f"{name}_waiting_for_turns", text, value=turns["peers"])
        text = "Messages that wait so for the one of these nodes that lacks those of most pools."
        yield GaugeMetricFamily(f"{name}_waiting_messages", text, value=turns["messages"])
        for what, text in (
            ("connections", "Connections of those who have dialled in at a door for other nodes."),
            ("strangers", "Those of them that neither the topology nor the ledger names."),
        ):
            found = GaugeMetricFamily(f"{name}_door_{what}", text, labels=["door"])
            for one in nodes["doors"]:
                found.add_metric([one["listens_at"]], one[what])
            yield found

    def _gauge(self, name: str) -> str:
        """Return the name of a gauge that dmq-node has, too; in Prometheus's style on the node's own page."""
        if self._prefix == PAGE_PREFIX:
            return self._prefix + re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
        return f"{self._prefix}{name}_int" if self._suffix else f"{self._prefix}{name}"

    def _of_carriage(self, nodes: dict[str, Any]) -> Iterator[Metric]:
        """Yield what messages of other nodes cost: their bytes, and the time from announcement to acceptance."""
        name, accepted, delay = f"{self._prefix}nodes", nodes["accepted_bytes"], nodes["hop_delay"]
        yield CounterMetricFamily(f"{name}_bytes_in", "Bytes that were read from other nodes.", nodes["bytes_in"])
        yield CounterMetricFamily(f"{name}_bytes_out", "Bytes that were written to other nodes.", nodes["bytes_out"])
        yield CounterMetricFamily(f"{name}_accepted_bytes", "Bytes of messages of theirs that were taken.", accepted)
        if accepted:
            text = "Bytes that were read from other nodes for each byte of a message of theirs that was taken."
            yield GaugeMetricFamily(f"{name}_bytes_per_accepted_byte", text, value=nodes["bytes_in"] / accepted)
        found = HistogramMetricFamily(
            f"{name}_hop_delay_seconds", "Seconds from the first announcement of a message until it was taken."
        )
        bounds = [*map(floatToGoString, BOUNDS_S), "+Inf"]
        found.add_metric([], [*zip(bounds, accumulate(delay["buckets"]), strict=True)], delay["sum_s"])
        yield found

    def _of_group(self, group: dict[str, Any]) -> Iterator[Metric]:
        """Yield what is told of the topic's group."""
        name = f"{self._prefix}group"
        yield CounterMetricFamily(f"{name}_published", "Messages that were published in the group.", group["published"])
        yield CounterMetricFamily(f"{name}_heard", "Messages of the group that were taken.", group["heard"])
        text = "Messages of the group that were here already."
        yield CounterMetricFamily(f"{name}_duplicates", text, group["duplicates"])
        rejected = CounterMetricFamily(f"{name}_rejections", "Messages of the group not taken.", labels=["reason"])
        for reason, count in group["rejected"].items():
            rejected.add_metric([reason], count)
        yield rejected
        joined, may = float(group["joined"]), float(group["may_publish"])
        yield GaugeMetricFamily(f"{name}_joined", "Whether this node takes part in it.", value=joined)
        yield GaugeMetricFamily(f"{name}_may_publish", "Whether its link here may send.", value=may)

    def _of_reference(self, accepted: int, rejected: int) -> Iterator[Metric]:
        """Yield what dmq-node has, too."""
        values = {"submitted": accepted + rejected, "accepted": accepted, "rejected": rejected}
        for what, value in values.items():
            name = f"{self._prefix}submissions_{what}{self._suffix}"
            found = Metric(name, f"Messages that were {what}.", "unknown")
            found.add_sample(name, {}, value)
            yield found

    def _of_consumers(self, consumers: list[dict[str, Any]]) -> Iterator[Metric]:
        about = {
            "lag": "Live messages that a named consumer has not acknowledged.",
            "set_aside": "Messages that are set aside for a named consumer.",
            "connected": "Whether a named consumer is connected.",
        }
        for what, text in about.items():
            found = GaugeMetricFamily(f"{self._prefix}consumer_{what}", text, labels=["consumer"])
            for one in consumers:
                found.add_metric([one["name"]], float(one[what]))
            yield found

    def _of_stake(self, stake: dict[str, Any]) -> Iterator[Metric]:
        name = f"{self._prefix}stake"
        yield GaugeMetricFamily(f"{name}_pools", "Pools in the stake distribution.", value=stake["pools"])
        if stake["age_s"] is not None:
            yield GaugeMetricFamily(f"{name}_age_seconds", "Age of the stake distribution.", value=stake["age_s"])
        of_epoch = float(stake["is_of_epoch"])
        yield GaugeMetricFamily(f"{name}_is_of_epoch", "Whether it is that of the present epoch.", value=of_epoch)
        has_problem = float(bool(stake["problem"]))
        yield GaugeMetricFamily(f"{name}_has_problem", "Whether the last could not be read.", value=has_problem)

    def _of_pools(self, facts: PageFacts) -> Iterator[Metric]:
        shares = sorted(facts.holdings.mempool.live_by_pool(), key=lambda one: (-one[1], one[0]))[:POOLS_MAX]
        live = GaugeMetricFamily(f"{self._prefix}pool_messages", "Live messages of a pool.", labels=["pool"])
        for pool, count in shares:
            live.add_metric([pool.text], count)
        yield live
        authentication = facts.holdings.authentication
        period = authentication.topic.chain.kes_period_at(facts.wall_s)
        ending = sorted(
            (end - period, pool) for pool, end in authentication.ends.items() if end - period <= ENDING_PERIODS
        )
        name = f"{self._prefix}certificates_ending"
        yield GaugeMetricFamily(name, f"Pools whose certificate has {ENDING_PERIODS} KES periods left.", len(ending))
        left = GaugeMetricFamily(f"{self._prefix}certificate_periods_left", "KES periods left of it.", labels=["pool"])
        for periods, pool in ending[:POOLS_MAX]:
            left.add_metric([pool.text], max(periods, 0))
        yield left


def _reference_gauges(nodes: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield the gauges of other nodes that dmq-node has, too: the name there, what it is, and the value."""
    for state in ("cold", "warm", "hot"):
        yield f"peerSelection_{state.capitalize()}", f"Nodes that are {state}.", nodes[state]
    connected = nodes["warm"] + nodes["hot"]
    yield "peerSelection_KnownPeers", "Nodes that are known, connected or not.", nodes["cold"] + connected
    yield "peerSelection_EstablishedPeers", "Nodes that are connected.", connected
    yield "peerSelection_ActivePeers", "Nodes that this one fetches from.", nodes["hot"]
    refused = sum(nodes["rejections"].values())
    simplex = nodes["inbound"] + nodes["outbound"] - nodes["duplex"]
    yield "connectionManager_inboundConns", "Nodes that have dialled this one.", nodes["inbound"]
    yield "connectionManager_outboundConns", "Nodes that this one has dialled.", nodes["outbound"]
    yield "connectionManager_duplexConns", "Connections that run both ways.", nodes["duplex"]
    yield "connectionManager_fullDuplexConns", "Connections over which both sides fetch.", nodes["full_duplex"]
    yield "connectionManager_unidirectionalConns", "Connections over which one side alone fetches.", simplex
    yield "inboundGovernor_hot", "Nodes that have begun to fetch or, in version 1, to provide.", nodes["hot_inbound"]
    yield "txSubmission_txsAccepted", "Messages of other nodes that were taken.", nodes["accepted"]
    yield "txSubmission_txsRejected", "Messages of other nodes that were not taken.", refused
    yield "txSubmission_lateBodies", "Bodies that came after another node had brought them.", nodes["duplicates"]
    yield from _requests(nodes["requests"])


def _requests(made: dict[str, int]) -> Iterator[tuple[str, str, float]]:
    """Yield what was asked of other nodes and has come, as dmq-node counts it."""
    for name, text, value in (
        ("txIdMessagesSent", "Requests for ids.", made["blocking"] + made["pipelined"]),
        ("txIdBlockingReqsSent", "Requests for ids that wait until there is one.", made["blocking"]),
        ("txIdPipelinedReqsSent", "Requests for ids that do not wait.", made["pipelined"]),
        ("txIdsRequested", "Ids that were requested, as the most that each request allows.", made["ids_requested"]),
        ("txIdRepliesReceived", "Replies to requests for ids.", made["id_replies"]),
        ("txIdsReceived", "Ids in these replies.", made["ids_received"]),
        ("txMessagesSent", "Requests for bodies.", made["body_requests"]),
        ("txsRequested", "Bodies that were requested.", made["bodies_requested"]),
        ("txRepliesReceived", "Replies to requests for bodies.", made["body_replies"]),
        ("txsReceived", "Bodies in these replies.", made["bodies_received"]),
        ("txsOmitted", "Bodies that were requested and are missing in the reply.", made["bodies_omitted"]),
    ):
        yield f"txSubmission_{name}", text, value


def page_of(metrics: Metrics, status: dict[str, Any], holdings: Holdings, now: c.Now) -> tuple[str, bytes]:
    """Return the page of this moment."""
    return metrics.page(PageFacts(status, holdings, now.wall_s))


def families(status: dict[str, Any]) -> Iterator[Metric]:
    """Yield what the page of the node that runs it tells of it: all but that of single pools."""
    return Metrics(PAGE_PREFIX, has_suffix=False).of_status(status)
