"""Find what a router signed that cannot be. Follows `findings/claims.sql` of the local engine."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_analytics.batch.gold.custody import ID, IS_OWN, IS_UNLIKE, SIZE
from spark_analytics.batch.gold.delivery import bits
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.pieces import unwritten_bits
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.local_rows import table_of
from spark_analytics.judgement import impossible_ends
from spark_analytics.judgement.claim_sql import NEVER_AGAIN
from spark_analytics.judgement.schema import ENDS, VIA_BYTES
from spark_analytics.judgement.unnamed_reasons import CLAIM, Unnamed

Rows = list[dict[str, Any]]
_FACTS = {
    "is_unicast": "other-kind",
    "signer": "other-sender",
    "destination": "other-destination",
    "expiry": "other-expiry",
    "ttl_s": "other-ttl",
}
"""The claim for each fact but the size, in order of precedence."""
GONE = ("expired", "refused")
"""How a message ends on the way to a router, which may have accepted it."""
ENDED = (
    "router", "parcel", "taker", "event", "reason", "seq", "t", "count", "kind", "group_key", "accepted_t", "ids",
)  # fmt: skip
"""The columns of `ended_on_the_way`; `taker`: the router that they were for, by its number."""
_FROM, _UNTIL = "least(n, greatest(0L, part[0] - parcel))", "least(n, part[0] - parcel + part[1])"
_IDS_OF_PARTS = f"""aggregate(parts, X'', (all, part) -> concat(all, substring(
    of_all, cast(32 * {_FROM} + 1 AS int), cast(32 * greatest(0L, {_UNTIL} - {_FROM}) AS int))))"""


def before_accepted(tables: Tables) -> Rows:
    """Return the claims of ends that lie before their acceptance, by the monotonic clock of one boot or by their
    place."""
    ends = tables.rows.where("event IN ('delivered', 'acked')")
    is_before = "boot = accepted_boot AND mono < accepted_mono OR seq < accepted_seq"
    return told_of(tables, "before-accepted", ends, is_before)


def barred(others: DataFrame, tables: Tables) -> Rows:
    """Return the routers that others have barred because they pass nothing on. Follows `findings/barred.sql` of the
    local engine. `others`: the lines without a recipient."""
    return rows(named(barred_by(others.where(tables.span.is_within())), tables.routers))


def barred_by(others: DataFrame) -> DataFrame:
    """Sum the lines that tell of a barred router, by router and peer."""
    said = others.where("event = 'pubsub_barred' AND other.fields['service'] IS NOT NULL")
    number = "coalesce(sum(try_cast(other.fields['{}'] AS bigint)), 0L)"
    by_peer = said.where("other.fields['router'] <> ''").groupBy(
        "router", F.expr("other.fields['router']").alias("peer")
    )
    return by_peer.agg(
        F.count("*").alias("count"),
        F.expr(number.format("lost")).alias("lost"),
        F.expr(number.format("withheld")).alias("withheld"),
        F.min("seq").alias("seq"),
    )


def told_of(tables: Tables, claim: str, ends: DataFrame, which: str) -> Rows:
    """Sum these ends with their acceptances, where `which` holds, by router and recipient."""
    lines = tables.accepted.where("is_within").select(
        "router",
        "parcel",
        "n",
        "ids",
        "recipients",
        F.col("seq").alias("accepted_seq"),
        F.col("mono").alias("accepted_mono"),
        F.col("boot").alias("accepted_boot"),
        F.expr("due_ns > t").alias("asks"),
    )
    at = "range_first - parcel"
    name = f"CASE WHEN {at} BETWEEN 0 AND n - 1 THEN lower(hex(substring(ids, cast(32 * ({at}) + 1 AS int), 32))) END"
    first = F.struct("seq", "accepted_seq", F.expr(name).alias("id"))
    wanted = ends.select("router", "parcel", "seq", "mono", "boot", "recipient", "count", "range_first")
    sums = (
        wanted.join(lines, ["router", "parcel"], "inner")
        .where(which)
        .groupBy("router", F.col("recipient").alias("peer"))
        .agg(F.sum("count").alias("count"), F.min(first).alias("first"))
    )
    return [{"claim": claim, **row} for row in rows(named(sums, tables.routers))]


_BY_ROUTER = "PARTITION BY id, router ORDER BY said"


def unlike(tables: Tables) -> Rows:
    """Find messages of which logs tell facts that belong to the id in two ways. Follows `findings/unlike.sql` of the
    local engine."""
    odd = tables.accepted_id.groupBy("id").agg(F.expr(IS_UNLIKE).alias("is_unlike")).where("is_unlike").select("id")
    lines = tables.accepted.where("is_within").withColumn("i", F.explode(F.expr("sequence(0L, n - 1)")))
    told = lines.select(
        F.expr(ID).alias("id"),
        "router",
        F.struct(
            "seq",
            "i",
            F.expr("said.kind = 'unicast'").alias("is_unicast"),
            "said.signer",
            "said.destination",
            F.expr("coalesce(get(expiries, cast(i AS int)), expiry)").alias("expiry"),
            F.expr("coalesce(get(ttls, cast(i AS int)), ttl_s)").alias("ttl_s"),
            F.expr(SIZE).alias("size"),
        ).alias("said"),
    )
    names = [F.col(f"said.{name}").alias(name) for name in (*_FACTS, "size")]
    each = told.join(odd, "id", "left_semi").groupBy("id", "router", *names).agg(F.min("said").alias("said"))
    said = each.select("id", "router", "said", F.expr(f"row_number() OVER ({_BY_ROUTER}) AS place"))
    cases = " ".join(f"WHEN NOT said.{name} <=> most.{name} THEN '{word}'" for name, word in _FACTS.items())
    more = "CASE WHEN place = 1 THEN said.size - most.size ELSE abs(said.size - most.size) END"
    claim = F.expr(f"CASE {cases} WHEN {more} NOT IN (0, {VIA_BYTES}) THEN 'other-size' END")
    first = F.struct("said.seq", F.col("other.seq").alias("accepted_seq"), F.lower(F.hex("id")).alias("id"))
    sums = (
        said.join(_told_by_most(said.where("place = 1").drop("place")), "id", "inner")
        .select("id", "router", F.col("other.router").alias("peer"), claim.alias("claim"), first.alias("first"))
        .where("claim IS NOT NULL")
        .groupBy("claim", "router", "peer")
        .agg(F.count_distinct("id").alias("count"), F.min("first").alias("first"))
    )
    keys = F.broadcast(tables.routers.select(F.col("number").alias("peer"), F.col("router").alias("peer_key")))
    found = named(sums.join(keys, "peer", "inner"), tables.routers)
    return rows(found.select("claim", "router", F.col("peer_key").alias("peer"), "count", "first"))


def _told_by_most(said: DataFrame) -> DataFrame:
    """Return what most routers tell of each message, if as many tell otherwise, what the first of them does: `id`,
    `most`, and of the first router that tells so, `other`, its number and event. `said`: `id`, `router`, `said`."""
    each = said.select("id", F.col("router").alias("by"), F.col("said").alias("most"))
    same = " AND ".join(f"said.{name} <=> most.{name}" for name in _FACTS)
    agreed = each.join(said, "id", "inner").where(f"{same} AND said.size - most.size IN (0, {VIA_BYTES})")
    sums = agreed.groupBy("id", "by").agg(
        F.count("*").alias("n"),
        F.min("most").alias("most"),
        F.min(F.struct("router", "said.seq")).alias("other"),
    )
    best = sums.groupBy("id").agg(F.expr("min_by(struct(most, other), struct(-n, by))").alias("best"))
    return best.select("id", "best.*")


_LEAST_BIT = "bit_count((mask & -mask) - 1)"
"""The place of the lowest bit of a mask."""


def judged_by_writing(tables: Tables, words: Rows, routers: set[str]) -> set[str]:
    """Return those of the routers of which the logs tell of messages written, or are of a version that always does. A
    stream knows the last `config` of each."""
    told = {row["router"] for row in words if row["event"] == "forwarded"}
    if routers <= told:
        return routers
    marked = tables.others.where("event = 'config' AND other.fields['clock_moves_s_max'] IS NOT NULL").select("router")
    return routers & (told | {row["router"] for row in rows(named(marked.distinct(), tables.routers))})


def unwritten(tables: Tables, routers: set[str]) -> Rows:
    """Find messages that were delivered or acknowledged by these routers and never written to that recipient. Follows
    `findings/unwritten.sql` of the local engine."""
    judged = F.broadcast(tables.routers.where(F.col("router").isin(*sorted(routers))))
    numbers = judged.select(F.col("number").alias("router"))
    found = bits(tables.pieces, tables.owed).where("owed > 0 AND hole_first IS NULL AND is_within")
    masks = found.join(numbers, "router", "left_semi").withColumn("mask", unwritten_bits()).where("mask <> 0")
    units = masks.groupBy("router", "parcel", "recipient").agg(
        F.sum(F.expr("bit_count(mask)").cast("bigint")).alias("count"),
        F.min(F.expr(f"32 * block + {_LEAST_BIT}")).alias("i"),
    )
    ends = tables.rows.where("event IN ('delivered', 'acked')").groupBy("router", "parcel", "recipient")
    lines = tables.accepted.select("router", "parcel", "ids", F.col("seq").alias("accepted_seq"))
    first = F.struct("seq", "accepted_seq", F.lower(F.hex(F.expr(ID))).alias("id"))
    sums = (
        units.join(ends.agg(F.min("seq").alias("seq")), ["router", "parcel", "recipient"], "inner")
        .join(lines, ["router", "parcel"], "inner")
        .groupBy("router", F.col("recipient").alias("peer"))
        .agg(F.sum("count").alias("count"), F.min(first).alias("first"))
    )
    return [{"claim": "never-written", **row} for row in rows(named(sums, tables.routers))]


def not_owed(tables: Tables) -> Rows:
    """Find messages that ended for a recipient that the accepted line does not name, in logs that are whole. Follows
    `findings/not_owed.sql` of the local engine."""
    whole = F.broadcast(tables.routers.where("is_whole").select(F.col("number").alias("router")))
    ends = tables.rows.where(F.col("event").isin(*ENDS) & F.col("recipient").isNotNull())
    ends = ends.join(whole, "router", "left_semi")
    return told_of(tables, "not-owed", ends, "NOT array_contains(recipients, recipient)")


def unanswered(tables: Tables) -> Rows:
    """Find messages that ended as unconfirmed although their ttl asks for an answer. Follows `findings/unanswered.sql`
    of the local engine."""
    return told_of(tables, "answer-owed", tables.rows.where("event = 'unconfirmed'"), "asks")


def unnamed(tables: Tables, told: Unnamed) -> Rows:
    """Find messages that ended for a reason that the segment does not name. Follows `findings/unnamed.sql` of the local
    engine."""
    session = tables.rows.sparkSession
    keys = tables.routers.select(F.col("number").alias("router"), F.col("router").alias("key"))
    files = table_of(session, told.files, "key string, first_seq long, last_seq long, number long").join(keys, "key")
    asked = F.broadcast(table_of(session, [(reason,) for reason in told.asked], "reason string"))
    ends = tables.rows.where(F.col("event").isin(*ENDS) & F.col("recipient").isNotNull())
    ends = ends.join(asked, "reason", "left_semi").join(F.broadcast(files.drop("key")), "router", "inner")
    named_here = F.broadcast(table_of(session, told.named, "number long, reason string"))
    ends = ends.where("seq BETWEEN first_seq AND last_seq").join(named_here, ["number", "reason"], "left_anti")
    return told_of(tables, CLAIM, ends, "true")


def ended_impossibly(tables: Tables, ends: list[impossible_ends.End]) -> Rows:
    """Find messages that ended so. Follows `findings/impossible.sql` of the local engine."""
    session = tables.rows.sparkSession
    keys = tables.routers.select(F.col("number").alias("router"), F.col("router").alias("key"))
    said = table_of(session, ends, "key string, event string, reason string").join(keys, "key", "inner").drop("key")
    lines = tables.rows.where(F.col("recipient").isNotNull())
    lines = lines.join(F.broadcast(said), ["router", "event", "reason"], "left_semi")
    return told_of(tables, impossible_ends.CLAIM, lines, "true")


def gone_there(tables: Tables, words: Rows) -> DataFrame | None:
    """Return the messages that ended as refused or expired at a neighbour which by its own log had accepted them from
    here, as of `accepted_there`; None if nothing ended so at all. Follows `gone_there` of the local engine. `words`:
    rows of `findings.tally`."""
    ends = {(row["event"], row["reason"]) for row in words if not row["at_door"]}
    if not any(event in GONE for event, _ in ends):
        return None
    ended = each_message(ended_on_the_way(tables.rows, tables.accepted, tables.routers))
    once = tables.accepted_id.where("times = 1 AND NOT has_copy").select("id", "router")
    return accepted_there(tables, ended, once, tables.accepted_id)


def ended_on_the_way(rows: DataFrame, accepted: DataFrame, routers: DataFrame) -> DataFrame:
    """Return the lines of messages that expired on the way to a router with a log here, or that it is said to have
    refused: columns `ENDED`, with the `ids` of these messages, 32 bytes each, and the
    `kind`, `group_key` and time (`accepted_t`) of their acceptance."""
    keys = routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient"))
    ended = (
        rows.where(F.col("event").isin(*GONE))
        .join(F.broadcast(keys), "recipient", "inner")
        .withColumn("parts", F.expr("concat(array(array(range_first, range_count)), coalesce(more_ranges, array()))"))
    )
    line = accepted.where("is_within").select(
        "router",
        "parcel",
        "n",
        F.col("ids").alias("of_all"),
        F.col("t").alias("accepted_t"),
        "said.kind",
        F.col("said.signer").alias("group_key"),
    )
    found = ended.join(line, ["router", "parcel"], "inner").withColumn("ids", F.expr(_IDS_OF_PARTS))
    return found.select(*ENDED)


def each_message(ended: DataFrame) -> DataFrame:
    """Return each message of lines of `ended_on_the_way`, with its `id`."""
    each = ended.where("length(ids) > 0").withColumn("i", F.explode(F.expr("sequence(0L, length(ids) div 32 - 1)")))
    return each.withColumn("id", F.expr(ID)).drop("i", "ids")


def accepted_there(tables: Tables, ended: DataFrame, once: DataFrame, accepted_id: DataFrame) -> DataFrame:
    """Return those of the messages that their taker had from the router itself first: with `there_t`, when it accepted
    them. `once`: messages (id, router) that the router accepted once and of which it sent no copy on. Others it may
    have owed to the taker more than once: of these all must have ended so. A message `is_counted` with its first end;
    it `is_never` taken, if all its ends are refusals for a reason for which nobody refuses what it has accepted."""
    there = accepted_id.select(
        "id", F.col("router").alias("taker"), F.col("first_t").alias("there_t"), F.col("first_by").alias("by")
    )
    found = ended.join(there, ["id", "taker"], "inner").where("by = router").drop("by")
    never = F.expr("event = 'refused'") & F.coalesce(F.col("reason").isin(*NEVER_AGAIN), F.lit(False))
    found = found.withColumns({"is_counted": F.lit(True), "is_never": never})
    found = tables.kept.keep(found.join(once.withColumn("is_once", F.lit(True)), ["id", "router"], "left"))
    alone, others = (found.where(which).drop("is_once") for which in ("is_once", "is_once IS NULL"))
    if others.isEmpty():
        return alone
    return alone.unionByName(tables.kept.keep(_all_ended(tables.everything, others)))


def _all_ended(tables: Tables, there: DataFrame) -> DataFrame:
    """Return those of these ends, as of `accepted_there`, of messages that have as many as they were owed to the
    taker."""
    keys = F.broadcast(tables.routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient")))
    wanted = there.select("id", "router", "taker").distinct()
    parties = F.broadcast(wanted.select("router", "taker").distinct().join(keys, "taker"))
    lines = tables.accepted.select("router", "ids", "n", F.explode("recipients").alias("recipient"))
    sent = lines.join(parties, ["router", "recipient"], "inner").withColumn(
        "i", F.explode(F.expr("sequence(0L, n - 1)"))
    )
    each = sent.select(F.expr(ID).alias("id"), "router", "taker").join(wanted, ["id", "router", "taker"], "left_semi")
    units = each.groupBy("id", "router", "taker").agg(F.count("*").alias("units"))
    of_one = Window.partitionBy("id", "router", "taker")
    ends = {
        "ends": F.count("*").over(of_one),
        "is_counted": F.col("seq") == F.min("seq").over(of_one),
        "is_never": F.min("is_never").over(of_one),
    }
    found = there.withColumns(ends).join(units, ["id", "router", "taker"], "inner")
    return found.where("ends = units").select(*there.columns)


def refused_there(tables: Tables, there: DataFrame, words: Rows) -> Rows:
    """Return the claims that a neighbour refused messages after it had accepted them. `there`: as of
    `accepted_there`."""
    stepped = {row["router"] for row in words if row["event"] == "clock_step"}
    steady = tables.routers.where(~F.col("router").isin(*sorted(stepped))) if stepped else tables.routers
    here = F.broadcast(steady.select(F.col("number").alias("router")))
    taker = F.col("number").alias("taker")
    sound = F.broadcast(steady.where("is_unbroken").select(taker, "is_whole", F.col("end_ns").alias("log_end_ns")))
    found = (
        there.where("is_counted AND is_never")
        .join(here, "router", "left_semi")
        .join(sound, "taker", "inner")
        .join(F.broadcast(apart(tables)), ["router", "taker"], "inner")
        .where("lower_ns <= coalesce(upper_ns, lower_ns) AND there_t - lower_ns < t")
        .where("is_whole OR coalesce(t + upper_ns < log_end_ns, false)")
    )
    first = F.struct("seq", F.lower(F.hex("id")).alias("id"))
    sums = found.groupBy("router", "taker").agg(F.count("*").alias("count"), F.min(first).alias("first"))
    told = rows(named(sums.join(_keys(tables), "taker", "inner"), tables.routers))
    at = _accepted_at(tables.everything, told) if told else {}
    return [
        {
            "claim": "refused-there",
            "router": row["router"],
            "peer": row["peer"],
            "count": row["count"],
            "first": {**row["first"], "accepted_seq": at[row["taker"], row["first"]["id"]]},
        }
        for row in told
    ]


def _accepted_at(tables: Tables, told: Rows) -> dict[tuple[int, str], int]:
    """Return the first acceptance of each of these messages at its taker, copies left aside: its event."""
    named_ids = sorted({(row["taker"], row["first"]["id"]) for row in told})
    wanted = table_of(tables.rows.sparkSession, named_ids, "router long, name string")
    lines = tables.accepted.where(IS_OWN).withColumn("i", F.explode(F.expr("sequence(0L, n - 1)")))
    each = lines.select("router", "seq", F.lower(F.hex(F.expr(ID))).alias("name"))
    found = each.join(F.broadcast(wanted), ["router", "name"], "left_semi")
    sums = found.groupBy("router", "name").agg(F.min("seq").alias("seq"))
    return {(row["router"], row["name"]): row["seq"] for row in rows(sums)}


def went_on(tables: Tables, there: DataFrame) -> Rows:
    """Count the messages that expired on the way to a router which accepted them, or are said to have been refused by
    it. `there`: as of `accepted_there`."""
    sums = there.where("is_counted").groupBy("router", "taker", "event").agg(F.count("*").alias("count"))
    found = named(sums.join(_keys(tables), "taker", "inner"), tables.routers)
    return rows(found.select("router", F.col("peer").alias("recipient"), "event", "count"))


def apart(tables: Tables) -> DataFrame:
    """Return `bounds` at any time of both logs, by what each of both routers handed to the other: as wide as either
    clock moved against its monotonic one, which a router tells only of more than it lets pass."""
    bound = bounds(tables)
    turned = bound.selectExpr("taker AS router", "router AS taker", "-upper_ns AS lower_ns", "-lower_ns AS upper_ns")
    sums = bound.unionByName(turned).groupBy("router", "taker")
    found = sums.agg(F.max("lower_ns").alias("lower_ns"), F.min("upper_ns").alias("upper_ns"))
    for name in ("router", "taker"):
        moves = F.broadcast(tables.clock_moves.select(F.col("router").alias(name), F.col("ns").alias(f"{name}_ns")))
        found = found.join(moves, name, "left")
    moved = "CAST(coalesce(router_ns, 0) AS DECIMAL(20)) + CAST(coalesce(taker_ns, 0) AS DECIMAL(20))"
    return found.selectExpr("router", "taker", f"lower_ns - ({moved}) AS lower_ns", f"upper_ns + {moved} AS upper_ns")


def bounds(tables: Tables) -> DataFrame:
    """Return the bounds of each taker's clock minus the router's: `router`, `taker`, `lower_ns`, `upper_ns`."""
    keys = tables.routers.select(F.col("number").alias("taker"), F.col("router").alias("recipient"))
    numbers = tables.routers.select("number", "router")
    found = tables.custody.join(F.broadcast(keys), "recipient", "inner").join(F.broadcast(numbers), "router", "inner")
    return found.select(F.col("number").alias("router"), "taker", "lower_ns", "upper_ns")


def _keys(tables: Tables) -> DataFrame:
    return F.broadcast(tables.routers.select(F.col("number").alias("taker"), F.col("router").alias("peer")))
