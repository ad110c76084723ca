"""The page of metrics: of the node, and of those services whose folder has a metrics.py."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from router.service import node_metrics
from router.service.exposition import of_service, page_of
from router.service.plugins import Families, UnknownService, load_families

log = logging.getLogger(__name__)


class MetricsPage:
    """Makes the page. A service's file is loaded when the service is first met."""

    def __init__(self, load: Callable[[str], Families | None] = load_families) -> None:
        self._load = load
        self._known: dict[str, Families | None] = {}

    def __repr__(self) -> str:
        return f"<page of metrics of the node and of {sum(map(bool, self._known.values()))} kinds of services>"

    def is_told_by(self, module: str) -> bool:
        """Whether that kind of service says something of itself."""
        if module not in self._known:
            try:
                self._known[module] = self._load(module)
            except UnknownService as error:
                log.warning("no metrics of %s: %s", module, error)
                self._known[module] = None
        return self._known[module] is not None

    def page_of(self, node: Mapping[str, Any], statuses: Mapping[str, Any], accept: str) -> tuple[str, bytes]:
        """Return media type and text. `node`: the node's answer to `metrics`; `statuses`: what services have answered
        to `status`, by their names."""
        return page_of([*node_metrics.families(node), *self._of_services(node["services"], statuses)], accept)

    def _of_services(self, rows: list[dict[str, Any]], statuses: Mapping[str, Any]) -> Iterator[Metric]:
        told = GaugeMetricFamily("router_service_told", "Whether a service's own metrics are here.", labels=["service"])
        for one in rows:
            if self.is_told_by(one["module"]):
                found = self._of_service(one["name"], one["module"], statuses.get(one["name"]))
                told.add_metric([one["name"]], float(bool(found)))
                yield from found
        yield told

    def _of_service(self, name: str, module: str, status: Any) -> list[Metric]:
        families = self._known[module]
        if status is None or families is None:
            return []
        try:
            return list(of_service(name, module, families(status)))
        except Exception as error:  # it is somebody else's file: whatever is wrong with it, the page has the rest
            log.warning("no metrics of the service %s: %s: %s", name, type(error).__name__, error)
            return []
