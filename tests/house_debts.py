"""What breaks the house rules for now: each list may only shrink."""

from __future__ import annotations

LONG = frozenset({
    "router/audit/command.py:audit",
    "router/bench/command.py:bench",
    "router/bench/scenarios.py:throughput",
    "router/cli/invite.py:invite",
    "router/cli/keys.py:init",
    "router/cli/neighbours.py:add",
    "router/cli/neighbours.py:list_peers",
    "router/core/link/session.py:__init__",
    "router/core/log/line.py:_row",
    "router/core/routing/admission.py:admit",
    "router/core/routing/delivery.py:Delivery",
    "router/core/routing/examination.py:examine",
    "router/disk/store/store.py:Store",
    "router/node/limits.py:core_limits",
    "services/discovery/core/lan/lan.py:Lan",
    "services/dmq/conform_command.py:conform",
    "services/dmq/core/conformance_checks.py:_handshakes",
    "services/dmq/core/questions.py:status",
    "services/dmq/doctor_command.py:doctor",
    "services/dmq/serve_command.py:serve",
    "services/pubsub/core/comparing.py:Comparing",
    "spark_analytics/batch/audit.py:audit",
    "spark_analytics/batch/conflict_findings.py:unsent",
    "spark_analytics/batch/findings.py:tally",
    "spark_analytics/batch/gold/accepted.py:accepted",
    "spark_analytics/batch/gold/delivery.py:blocks",
    "spark_analytics/batch/gold/message.py:message",
    "spark_analytics/batch/gold/pieces.py:pieces",
    "spark_analytics/batch/gold/service_unit.py:units",
    "spark_analytics/batch/silver.py:compact",
    "spark_analytics/judgement/evidence.py:judge",
    "spark_analytics/report/page/abuse.py:_figure",
    "spark_analytics/report/page/coverage.py:_problems",
    "spark_analytics/report/page/coverage.py:_strips",
    "spark_analytics/report/page/custody.py:_chain",
    "spark_analytics/report/page/deliveries.py:_why",
    "spark_analytics/report/page/lost.py:_examples",
    "spark_analytics/report/page/queues.py:_figure",
    "spark_analytics/report/summary.py:build",
    "spark_analytics/stream/increments.py:made",
    "transports/tls.py:listen",
})  # fmt: skip
"""Functions and classes over the limit, by file and name."""

HOOKED = frozenset({
    "router/core/link/session.py:machine",
})  # fmt: skip
"""Parts that another object's methods assign to, by its file and their name in it."""
