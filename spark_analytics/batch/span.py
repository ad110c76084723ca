"""What an audit is asked: the time at which it is made, the accepted events that it judges, and a service level."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_analytics.judgement.slo import USUAL, Slo

NS_MAX = (1 << 63) - 1
MINUTE_NS = 60 * 10**9
HOUR_NS = 3600 * 10**9


def first_of(minute: str, step: int) -> Column:
    """Return the first minute of a minute's window, with windows of `step` minutes since 1970."""
    return F.col(minute) if step == 1 else F.expr(f"{minute} div {step}L * {step}L")


@dataclass(frozen=True, slots=True)
class Span:
    """The time of the audit, `as_of_ns`, the accepted events that it judges, those in [since_ns, until_ns), and the
    service level that it measures.

    The methods take the name of a column of times in ns. No time stamp counts as later than now.
    """

    as_of_ns: int
    since_ns: int = 0
    until_ns: int = NS_MAX
    slo: Slo = USUAL

    def minute(self, t: str = "t") -> Column:
        return F.expr(f"{self._time(t)} div {MINUTE_NS}L")

    def hour(self, t: str = "t") -> Column:
        return F.expr(f"{self._time(t)} div {HOUR_NS}L")

    def date(self, t: str = "t") -> Column:
        """Return the UTC date."""
        return F.expr(f"date_from_unix_date(cast(if({t} IS NULL, NULL, {self._time(t)}) div {24 * HOUR_NS}L AS int))")

    def is_within(self, t: str = "t") -> Column:
        return F.expr(f"{self._time(t)} >= {self.since_ns}L AND {self._time(t)} < {self.until_ns}L")

    def _time(self, t: str) -> str:
        return f"least({t}, {self.as_of_ns}L)"
