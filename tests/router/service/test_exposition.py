"""Pages of metrics: services get their name as a label, keep to names of their own, and have a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from router.service.exposition import SERVICE_SERIES_MAX, of_service, page_of
from router.service.plugins import load_families


def gauge(name: str, *rooms: str) -> Metric:
    found = GaugeMetricFamily(name, "Rings.", labels=["room"])
    for room in rooms:
        found.add_metric([room], 1)
    return found


def test_two_services_of_a_kind_share_a_family() -> None:
    names = "front", "back"
    both = [one for name in names for one in of_service(name, "services.bell", [gauge("router_bell_a", "x")])]
    kind, page = page_of(both)
    [family] = text_string_to_metric_families(page.decode())
    assert [one.labels for one in family.samples] == [{"service": name, "room": "x"} for name in names]
    assert kind.startswith("text/plain")


def test_service_has_a_bound_and_names_of_its_own() -> None:
    rooms = [str(number) for number in range(SERVICE_SERIES_MAX)]
    first, second = of_service("bell", "bell:Bell", [gauge("router_bell_a", *rooms), gauge("router_bell_b", "x")])
    assert (len(first.samples), len(second.samples)) == (SERVICE_SERIES_MAX, 0)
    with pytest.raises(ValueError, match="router_ready does not begin with router_bell_"):
        list(of_service("bell", "services.bell", [gauge("router_ready")]))


def test_value_that_is_no_number_is_refused_before_it_spoils_the_page() -> None:
    wrong = Metric("router_bell_a", "Rings.", "gauge")
    wrong.add_sample("router_bell_a", {"room": 3}, "loud")  # type: ignore[arg-type,dict-item]
    with pytest.raises(ValueError, match="loud"):
        list(of_service("bell", "services.bell", [wrong]))
    wrong.samples = [wrong.samples[0]._replace(value=2, labels={"room": 3, "service": "another"})]  # type: ignore[dict-item]
    _, page = page_of(of_service("bell", "services.bell", [wrong]))
    assert b'router_bell_a{room="3",service="bell"} 2.0' in page


def test_metrics_of_a_folder_are_found_by_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("belfry", "def families(status): return [status]\n"), ("bare_belfry", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "metrics.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_families("belfry:Rules")
    assert found is not None and found(7) == [7]
    assert load_families("bare_belfry") is None and load_families("services.echo") is None
