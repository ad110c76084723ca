"""Pages of metrics, as Prometheus and OpenMetrics read them.

A service's families come from `families(status)` in the file metrics.py of its folder (`plugins.load_families`), where
`status` is its answer to the question of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from router.settings.config_services import service_name

SERVICE_SERIES_MAX = 1_000
"""Most series of one service on a page; the rest is left out."""


def page_of(families: Iterable[Metric], accept: str = "") -> tuple[str, bytes]:
    """Return media type and text, in the form that `Accept` names. Families of one name become one."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(_joined(families)))
    encode, kind = choose_encoder(accept)
    return kind, encode(registry)


def of_service(service: str, module: str, families: Iterable[Metric]) -> Iterator[Metric]:
    """Yield what a service says of itself, with its name as a label, since several may be of one kind. Raise
    `ValueError` for a name that another kind of service could have, `TypeError` or that for a value that is no
    number."""
    prefix, left = f"router_{service_name(module)}_", SERVICE_SERIES_MAX
    for one in families:
        if not one.name.startswith(prefix):
            raise ValueError(f"{one.name} does not begin with {prefix}")
        found = Metric(one.name, one.documentation, one.type, one.unit)
        found.samples = [
            sample._replace(value=float(sample.value), labels=_labels(service, sample.labels))
            for sample in one.samples[: max(0, left)]
        ]
        left -= len(one.samples)
        yield found


def _labels(service: str, labels: Mapping[str, object]) -> dict[str, str]:
    return {"service": service, **{name: str(value) for name, value in labels.items() if name != "service"}}


def _joined(families: Iterable[Metric]) -> list[Metric]:
    found = dict[str, Metric]()
    for one in families:
        if one.name in found:
            found[one.name].samples += one.samples
        else:
            found[one.name] = one
    return list(found.values())


class _Collected(Collector):
    """Hands families to a registry."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)
