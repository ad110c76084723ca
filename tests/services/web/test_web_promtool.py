"""Rules, page and dashboard as Prometheus's own tool reads them: each alert fires for what it is there for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from rigs.web_pages import DMQ_STATUS, WITH_DMQ
from rigs.web_sides import WebSide

from services.web.metrics_page import MetricsPage

DOCS = Path(__file__).parents[3] / "docs/monitoring"
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool here")
NODE = 'instance="a", job="router"'
MINUTES = 9 * 60
FIRES: dict[str, tuple[str, ...]] = {
    "RouterAway": (f"up{{{NODE}}} 0x{MINUTES}",),
    "RouterNotReady": (f"router_ready{{{NODE}}} 0x{MINUTES}",),
    "RouterQueueFillsUp": (
        f"router_queue_messages{{{NODE}}} 81x{MINUTES}", f'router_queue_limit{{{NODE}, of="messages"}} 100x{MINUTES}',
    ),
    "RouterQueueIsFullInADay": (
        f"router_queue_bytes{{{NODE}}} 0+1x{MINUTES}", f'router_queue_limit{{{NODE}, of="bytes"}} 1500x{MINUTES}',
    ),
    "RouterRefuses": (f'router_messages_total{{{NODE}, event="refused", reason="expired"}} 0+90x{MINUTES}',),
    "RouterDeliversLate": (
        f'router_delivery_seconds_bucket{{{NODE}, le="300.0"}} 0+1x{MINUTES}',
        f'router_delivery_seconds_bucket{{{NODE}, le="3600.0"}} 0+9x{MINUTES}',
        f'router_delivery_seconds_bucket{{{NODE}, le="+Inf"}} 0+9x{MINUTES}',
    ),
    "RouterCommitsSlowly": (
        f'router_commit_seconds_bucket{{{NODE}, le="0.25"}} 0+1x{MINUTES}',
        f'router_commit_seconds_bucket{{{NODE}, le="0.5"}} 0+9x{MINUTES}',
        f'router_commit_seconds_bucket{{{NODE}, le="+Inf"}} 0+9x{MINUTES}',
    ),
    "RouterLoopIsLate": (
        f'router_loop_lag_seconds_bucket{{{NODE}, le="0.25"}} 0+1x{MINUTES}',
        f'router_loop_lag_seconds_bucket{{{NODE}, le="0.5"}} 0+9x{MINUTES}',
        f'router_loop_lag_seconds_bucket{{{NODE}, le="+Inf"}} 0+9x{MINUTES}',
    ),
    "RouterStoreFillsUp": (
        f"router_store_used_bytes{{{NODE}}} 71x{MINUTES}", f"router_store_limit_bytes{{{NODE}}} 100x{MINUTES}",
    ),
    "RouterDiskIsFullInADay": (
        f"router_disk_free_bytes{{{NODE}}} 3000-1x{MINUTES}", f"router_disk_reserved_bytes{{{NODE}}} 1500x{MINUTES}",
    ),
    "RouterLogIsBehind": (f"router_log_behind_events{{{NODE}}} 1x{MINUTES}",),
    "RouterFindsItselfWrong": (f'router_alarms{{{NODE}, alarm="log-gap"}} 1x{MINUTES}',),
    "RouterBackupIsOverdue": (f"router_backup_overdue{{{NODE}}} 1x{MINUTES}",),
    "RouterVerifiersAreBehind": (f"router_unverified_messages{{{NODE}}} 10001x{MINUTES}",),
    "RouterServiceIsAway": (f'router_service_up{{{NODE}, service="dmq"}} 0x{MINUTES}',),
    "RouterServiceRestarts": (f'router_service_starts_total{{{NODE}, service="dmq"}} 0+1x{MINUTES}',),
}  # fmt: skip
"""The series for which each alert is to fire, a sample each minute."""
WELL = (
    f"up{{{NODE}}} 1x{MINUTES}", f"router_ready{{{NODE}}} 1x{MINUTES}",
    f"router_queue_messages{{{NODE}}} 79x{MINUTES}", f'router_queue_limit{{{NODE}, of="messages"}} 100x{MINUTES}',
    f"router_queue_bytes{{{NODE}}} 50x{MINUTES}", f'router_queue_limit{{{NODE}, of="bytes"}} 100x{MINUTES}',
    f'router_messages_total{{{NODE}, event="refused", reason="expired"}} 0+30x{MINUTES}',
    *(f'router_{name}_seconds_bucket{{{NODE}, le="{least}"}} 0+9x{MINUTES}'
      for name in ("delivery", "commit", "loop_lag") for least in ("0.1", "+Inf")),
    f"router_store_used_bytes{{{NODE}}} 60x{MINUTES}", f"router_store_limit_bytes{{{NODE}}} 100x{MINUTES}",
    f"router_disk_free_bytes{{{NODE}}} 3000x{MINUTES}", f"router_disk_reserved_bytes{{{NODE}}} 500x{MINUTES}",
    f"router_log_behind_events{{{NODE}}} 0x{MINUTES}", f"router_unverified_messages{{{NODE}}} 9x{MINUTES}",
    f'router_alarms{{{NODE}, alarm="log-gap"}} 0x{MINUTES}',
    f'router_service_up{{{NODE}, service="dmq"}} 1x{MINUTES}',
    f'router_service_starts_total{{{NODE}, service="dmq"}} 2x{MINUTES}',
)  # fmt: skip


def promtool(*arguments: str, stdin: bytes = b"") -> None:
    done = subprocess.run(["promtool", *arguments], input=stdin, capture_output=True, check=False)
    assert not done.returncode, (done.stdout + done.stderr).decode()


def firing(series: tuple[str, ...], alert: str) -> dict[str, object]:
    """Return a test for promtool: at the end this alert, and with "" none, fires for the series."""
    wanted = f'alertname="{alert}", ' if alert else ""
    return {
        "interval": "1m",
        "input_series": [dict(zip(("series", "values"), one.rsplit(" ", 1), strict=True)) for one in series],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{{wanted}alertstate="firing"}}) or vector(0)',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [{"labels": "{}", "value": 1 if alert else 0}],
            }
        ],
    }


def test_every_alert_fires_for_what_it_is_there_for_and_none_when_all_is_well(tmp_path: Path) -> None:
    rules = DOCS / "alerts.yml"
    promtool("check", "rules", str(rules))
    assert re.findall(r"- alert: (\w+)", rules.read_text()) == list(FIRES)
    tests = [firing(series, alert) for alert, series in FIRES.items()]
    text = {"rule_files": [str(rules)], "evaluation_interval": "10m", "tests": [*tests, firing(WELL, "")]}
    (tmp_path / "tests.yml").write_text(json.dumps(text))
    promtool("test", "rules", str(tmp_path / "tests.yml"))


def test_page_has_the_form_that_prometheus_wants() -> None:
    statuses = {"web": WebSide().operator("status"), "signers": DMQ_STATUS}
    promtool("check", "metrics", stdin=MetricsPage().page_of(WITH_DMQ, statuses, "")[1])


def test_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    asked = [
        one["expr"] for panel in json.loads((DOCS / "dashboard.json").read_text())["panels"] for one in panel["targets"]
    ]
    exprs = [one.replace("$__rate_interval", "5m").replace("$instance", ".*") for one in asked]
    rules = [{"record": f"r{number}", "expr": expr} for number, expr in enumerate(exprs)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "rules.yml"))
