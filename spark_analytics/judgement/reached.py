"""Messages that reached everybody: conditions on the table `message`, in SQL that DuckDB and Spark read alike."""

from __future__ import annotations

_ARRIVED = "owed > 0 AND delivered + acked = owed AND broken = 0"
REACHED = {
    "owed_messages": "owed > 0",
    "reached": f"{_ARRIVED} AND beyond = 0",
    "beyond": f"{_ARRIVED} AND beyond > 0",
}
"""Counts by name; `beyond`: all were taken over, some by routers or apps whose logs are not given."""
