"""Messages of services, as far as their events say by the field `handover` what became of them (cddl/segment.cddl).

`owed` to each of `recipients`; `done` or `ended` at a `recipient`; ended without a recipient: for whoever it is still
owed to; without numbers: all that is owed to the recipient. A message is known by its number.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import GRACE_NS, NUMBER_OF_TEXT

KEY = ["router", "signer", "number", "recipient"]
IS_TOLD = "other.fields['handover'] IN ('owed', 'done', 'ended') AND other.signer IS NOT NULL"
"""Whether a line of the layout says what became of a service's messages."""
_NUMBER, _DUE = (NUMBER_OF_TEXT.format(said) for said in ("one", "get(split(fields['each_due'], ','), i)"))
_MESSAGES = f"transform(split(fields['each_number'], ','), (one, i) -> struct({_NUMBER} AS number, {_DUE} AS due_s))"
_RECIPIENTS = """CASE WHEN fields['handover'] = 'owed'
    THEN filter(split(coalesce(fields['recipients'], ''), ','), one -> one <> '')
    ELSE array(fields['recipient']) END"""
_STATE = f"""CASE WHEN times > 0 THEN 'done'
    WHEN end_seq > seq OR gone_seq > seq OR every_seq > seq THEN 'ended'
    WHEN hole > seq THEN 'unknown'
    WHEN due_s * 1000000000L + {GRACE_NS}L <= end_ns THEN 'unaccounted' ELSE 'pending' END"""
_REASON = """CASE WHEN end_seq > seq THEN why WHEN gone_seq > seq THEN gone_why
    WHEN every_seq > seq THEN every_why END"""


def lines(others: DataFrame) -> DataFrame:
    """Return the lines that say so, with their recipients and messages as lists."""
    said = others.where(IS_TOLD)
    named = said.select("router", "seq", "t", "reason", "other.signer", "other.fields")
    return named.selectExpr(
        "router",
        "signer",
        "fields['service'] AS service",
        "seq",
        "t",
        "reason",
        "fields['handover'] AS handover",
        f"{_RECIPIENTS} AS recipients",
        f"{_MESSAGES} AS messages",
    )


def units(found: DataFrame, routers: DataFrame, span: Span) -> DataFrame:
    """Return each message and each recipient that it was owed to: its state there, the reason, and how often it was
    done. `found`: the lines."""
    each = found.withColumn("recipient", F.explode_outer("recipients"))
    steps = each.withColumn("one", F.explode_outer("messages")).select("*", "one.number", "one.due_s")
    owed = steps.where("handover = 'owed' AND number IS NOT NULL AND recipient IS NOT NULL").groupBy(*KEY)
    owed_units = owed.agg(
        F.min("service").alias("service"),
        F.max("seq").alias("seq"),
        F.min("t").alias("t"),
        F.max("due_s").alias("due_s"),
    )
    done = steps.where("handover = 'done'").groupBy(*KEY).agg(F.count("*").alias("times"))
    ended = steps.where("handover = 'ended'").groupBy(*KEY)
    ends = ended.agg(F.max("seq").alias("end_seq"), F.max_by("reason", "seq").alias("why"))
    own = ends.where("number IS NOT NULL AND recipient IS NOT NULL")
    everybody = _renamed(ends.where("number IS NOT NULL AND recipient IS NULL").drop("recipient"), "every")
    gone = _renamed(ends.where("number IS NULL AND recipient IS NOT NULL").drop("number"), "gone")
    facts = routers.select(
        F.col("number").alias("router"),
        "end_ns",
        F.expr("array_max(transform(holes, one -> one.last_seq))").alias("hole"),
    )
    joined = (
        owed_units.join(done, KEY, "left")
        .join(own, KEY, "left")
        .join(everybody, ["router", "signer", "number"], "left")
        .join(gone, ["router", "signer", "recipient"], "left")
        .join(F.broadcast(facts), "router", "inner")
    )
    return joined.where(span.is_within()).select(
        *KEY,
        "service",
        F.coalesce("times", F.lit(0)).alias("times"),
        F.expr(_STATE).alias("state"),
        F.expr(_REASON).alias("reason"),
    )


def services(found: DataFrame, made: DataFrame, span: Span) -> DataFrame:
    """Return what each service owes and what became of it; `made`: the units."""
    told = found.where("handover = 'owed'").where(span.is_within()).withColumn("one", F.explode("messages"))
    messages = told.groupBy("router", "signer").agg(
        F.min("service").alias("service"), F.countDistinct("one.number").alias("messages")
    )
    states = [
        F.count(F.when(F.col("state") == state, 1)).alias(state)
        for state in ("done", "ended", "pending", "unknown", "unaccounted")
    ]
    sums = made.groupBy("router", "signer").agg(
        F.count("*").alias("owed"), *states, F.sum(F.expr("greatest(times - 1, 0)")).alias("doubled")
    )
    return messages.join(sums, ["router", "signer"], "left").drop("signer").na.fill(0)


def ends(made: DataFrame) -> DataFrame:
    """Return why messages have ended without having been read, and an example of what has no end."""
    open_or_ended = made.where("state IN ('ended', 'unaccounted')")
    return open_or_ended.groupBy("router", "service", "state", "recipient", "reason").agg(
        F.count("*").alias("count"), F.min("number").alias("number")
    )


def _renamed(table: DataFrame, prefix: str) -> DataFrame:
    return table.withColumnRenamed("end_seq", f"{prefix}_seq").withColumnRenamed("why", f"{prefix}_why")
