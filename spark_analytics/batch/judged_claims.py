"""Find claims by the texts that both engines read (`judgement/claim_sql.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.batch.claim_findings import apart, each_message, ended_on_the_way, told_of
from spark_analytics.batch.gold.custody import ID
from spark_analytics.batch.gold.names import named, rows
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.local_rows import table_of
from spark_analytics.batch.log_ends import HOLE_SEQ
from spark_analytics.judgement import claim_sql, door_sql, owed_sql, presence_sql
from spark_analytics.judgement.claim_sql import (
    CHANGES,
    COPIED,
    FIELDS,
    HINT,
    IS_DOUBTFUL,
    NUMBERS,
    OF_MESSAGES,
    TEXTS,
)
from spark_analytics.judgement.conflicts import row_of
from spark_analytics.judgement.door_sql import NOT_BLAMED, UNBORNE_MIN, UNTURNED
from spark_analytics.judgement.link_sql import PONG
from spark_analytics.judgement.refusal_sql import FULL, FULL_GROUP, LIMITS, TOO_LARGE, claimable
from spark_analytics.judgement.schema import ENDS, NUMBER_OF_TEXT, TURNED_EVENTS

Rows = list[dict[str, Any]]
Made = Callable[[], DataFrame]
SECOND_NS = 10**9
ARRIVALS = ("delivered", "acked")
JOINS_MAX = 200_000
"""Most joins for which the times that somebody was in a group are sent to all partitions."""


def claims(tables: Tables, words: Rows) -> Rows:
    """Return the claims that the texts find. `words`: rows of `findings.tally`."""
    change, log = tables.kept.keep(change_of(tables.others)), log_of(tables)
    moved = _moved(tables, words, change)
    wanted = [
        *asked(words),
        "not-begun",
        "begun-twice",
        "copied-by-nobody",
        owed_sql.CLAIM,
        *(["other-time"] if moved else []),
        *(["time-back"] if _paced(tables) else []),
    ]
    joins = sum(row["lines"] for row in words if row["event"] == "join")
    found: Rows = []
    for claim in TEXTS:
        if claim not in wanted:
            continue
        sources = {"change": change, "log": log, **_sources(claim, tables, moved)}
        told = rows(named(made(TEXTS[claim], sources, joins), tables.routers))
        ids = ids_of(tables, told) if claim in OF_MESSAGES and told else {}
        found += [row_of(claim, row, ids.get((row["router"], row["seq"]))) for row in told]
    if any(row["event"] in ARRIVALS for row in words):
        links = rows(unlinked(change, log, acked(tables.rows)))
        found += never_linked(tables, links) if links else []
    return found


def joined_here(tables: Tables, found: Rows, ended: Made, doors: Made) -> Rows:
    """Return the claims as `door_sql.joined_here` does. `ended`, `doors`: make the tables of `ended_on_the_way` and
    `doors_named`."""
    if all(row["claim"] != "joined-there" for row in found):
        return found
    sources = {"log": log_of(tables), "refused": unread(ended()), "door_id": ids_at(doors())}
    each = each_message(ended().where(UNREAD)).withColumn("id", F.lower(F.hex("id")))
    sources["refused_id"] = each.select("router", "taker", "id")
    return door_sql.joined_here(found, rows(named(made(door_sql.BORNE_OUT, sources, 0), tables.routers)))


def unjudged(change: DataFrame, tables: Tables, words: Rows) -> Rows:
    """Return where logs do not show who was left out, if anybody joined. `change`: as of `change_of`."""
    if not any(row["event"] == "join" for row in words):
        return []
    return rows(named(made(presence_sql.UNJUDGED, {"change": change, "log": log_of(tables)}, 0), tables.routers))


def acked(lines: DataFrame) -> DataFrame:
    """Return the links over which messages were delivered or acknowledged, each with the first line that says so and
    the last."""
    by_link = lines.where(F.col("event").isin(*ARRIVALS)).groupBy("router", "boot", "link", "recipient")
    return by_link.agg(F.min("seq").alias("seq"), F.max("seq").alias("last_seq"))


def unlinked(change: DataFrame, log: DataFrame, acked: DataFrame) -> DataFrame:
    """Return the links that `claim_sql.UNLINKED` finds."""
    return made(claim_sql.UNLINKED, {"change": change, "log": log, "acked": acked}, 0)


def never_linked(tables: Tables, links: Rows) -> Rows:
    """Return the claims of messages that arrived over these links while they were not up. `tables`: of all lines;
    `links`: rows of `unlinked`."""
    names = ("router", "boot", "link", "recipient")
    told = [tuple(row[name] for name in (*names, "linked_seq", "down_seq")) for row in links]
    columns = "router long, boot long, link long, recipient string, linked_seq long, down_seq long"
    wanted = F.broadcast(table_of(tables.rows.sparkSession, told, columns))
    ends = tables.rows.where(F.col("event").isin(*ARRIVALS)).join(wanted, list(names), "inner")
    return told_of(tables, "never-linked", ends.where(claim_sql.OFF_LINK), "true")


def made(text: str, sources: Mapping[str, DataFrame], joins: int) -> DataFrame:
    """Return what a text finds in the tables that it names. `joins`: how many lines tell of somebody who joined."""
    needed: dict[str, Any] = {name: table for name, table in sources.items() if f"{{{name}}}" in text}
    session: SparkSession = next(iter(needed.values())).sparkSession
    return session.sql(text.replace("{hint}", HINT if joins <= JOINS_MAX else ""), **needed)


def asked(words: Rows) -> list[str]:
    """Return the claims for which a log has lines of the kind of which they are made."""
    ends = {(row["event"], row["reason"]) for row in words if not row["at_door"]}
    turned: dict[str, int] = {}
    for row in words:
        if row["at_door"]:
            turned[row["router"]] = turned.get(row["router"], 0) + row["within"]
    is_asked = {
        "left-out": any(event == "join" for event, _ in ends),
        "not-left": ("dropped", "left") in ends,
        "heard-when-down": any(event == PONG for event, _ in ends),
        "linked-there": any(event == PONG for event, _ in ends),
        "no-history": any(event == presence_sql.HISTORY for event, _ in ends),
        "not-handed": max(turned.values(), default=0) >= UNBORNE_MIN,
    }
    found = [*(claim for claim, is_so in is_asked.items() if is_so), *claimable(ends)]
    return [claim for claim in found if claim != UNTURNED or door_sql.is_blamed(words)]


def change_of(others: DataFrame) -> DataFrame:
    """Return the lines of `CHANGES` among lines without a recipient."""
    fields = {column: F.expr(f"other.fields['{name}']") for name, column in FIELDS.items()}
    numbers = {name: F.expr(NUMBER_OF_TEXT.format(f"other.fields['{name}']")) for name in NUMBERS}
    is_doubtful = F.expr(IS_DOUBTFUL.format("other.fields"))
    lines = others.where(F.col("event").isin(*CHANGES))
    found = lines.withColumns({**fields, **numbers, "is_doubtful": is_doubtful})
    return found.select("router", "seq", "t", "mono", "boot", "event", *fields, *numbers, "other.ids", "is_doubtful")


def pong_of(others: DataFrame) -> DataFrame:
    """Return the answers of neighbours among lines without a recipient."""
    found = others.where(F.col("event") == PONG)
    return found.select("router", "boot", "seq", "t", F.expr("other.fields['peer']").alias("peer"))


def log_of(tables: Tables) -> DataFrame:
    """Return the logs."""
    names = ("number AS router", "router AS key", "is_whole", "is_unbroken", "pruned_to", "is_restored")
    return tables.routers.where("end_ns IS NOT NULL").selectExpr(*names, "start_ns", "end_ns", HOLE_SEQ)


def _moved(tables: Tables, words: Rows, change: DataFrame) -> list[tuple[int, int]]:
    """Return the routers, by number, and boots in which the wall clock moved further against the monotonic clock than
    the router lets pass."""
    spans: dict[tuple[int, int], list[int]] = {}
    for row in tables.times:
        if row["min_apart_ns"] is not None:
            edges = spans.setdefault((row["router"], row["boot"]), [])
            edges += (row["min_apart_ns"], row["max_apart_ns"])
    wide = {key: max(edges) - min(edges) for key, edges in spans.items() if max(edges) - min(edges) > SECOND_NS}
    if not wide:
        return []
    most = change.where("clock_moves_s_max IS NOT NULL").groupBy("router").agg(F.max("clock_moves_s_max").alias("most"))
    moves = {row["router"]: row["most"] * SECOND_NS for row in rows(most)}
    return sorted(key for key, wide_ns in wide.items() if key[0] in moves and wide_ns > moves[key[0]])


def _sources(claim: str, tables: Tables, moved: list[tuple[int, int]]) -> dict[str, DataFrame]:
    """Return the tables that only this claim's text reads."""
    match claim:
        case "left-out":
            return {"sent": _sent(tables)}
        case "not-left":
            return {"dropped": left(tables.rows), "owed_line": _owed_lines(tables)}
        case "joined-there":
            ended = ended_on_the_way(tables.rows, tables.accepted, tables.routers)
            return {"refused": unread(ended), "apart": apart(tables)}
        case "no-history":
            return {"had": had(tables), "apart": apart(tables)}
        case "other-time":
            boots = table_of(tables.rows.sparkSession, moved, "router long, boot long")
            lines = tables.rows.select("router", "boot", "seq", "t", "mono")
            return {"timed": lines.join(F.broadcast(boots), ["router", "boot"], "left_semi")}
        case "time-back":
            return {"paced": _lines_paced(tables)}
        case owed_sql.CLAIM:
            return {"odd": odd(tables.accepted.where("is_within")), "room": room(tables)}
        case "copied-by-nobody":
            return {"copied": _copied(tables)}
        case "not-begun" | "begun-twice":
            return {"boot": _boots(tables)}
        case "linked-there":
            return {"pong": pong_of(tables.others), "apart": apart(tables)}
        case "heard-when-down":
            return {"pong": pong_of(tables.others)}
        case "not-handed":
            return {"turned": _turned(tables), "handed": _handed(tables), "apart": apart(tables)}
        case door_sql.UNTURNED:
            ended = blamed(ended_on_the_way(tables.rows, tables.accepted, tables.routers))
            own = {"door": door_of(tables), "run": _runs(tables), "stop": stops_of(tables.others)}
            return {**own, "blamed": ended, "apart": apart(tables)}
        case "not-full":
            return {"room": room(tables), **_of_filled(tables)}
        case "not-crowded":
            return {"room": room(tables), **_of_crowded(tables)}
        case _:
            return {"declined": _declined(tables), "written": _written(tables), "settled": _settled(tables)}


def _paced(tables: Tables) -> list[tuple[int, int, int, int]]:
    """Return the first and the last line of each file and run, as `claim_sql.BACK` reads them; none if by these the
    clock of no run goes back, and no file is uneven."""
    runs: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for row in tables.times:
        if row["first_seq"] is not None:
            own = runs.setdefault((row["router"], row["boot"]), set())
            own |= {(row["first_seq"], row["first_mono"]), (row["last_seq"], row["last_mono"])}
    is_back = any(one[1] > other[1] for own in runs.values() for one, other in pairwise(sorted(own)))
    is_odd = is_back or any(row["is_uneven"] for row in tables.times)
    return [(*run, *line) for run, own in runs.items() for line in own] if is_odd else []


def _lines_paced(tables: Tables) -> DataFrame:
    session, columns = tables.rows.sparkSession, "router long, boot long, seq long, mono long"
    edges = table_of(session, _paced(tables), columns)
    uneven = [
        (row["router"], row["boot"], row["first_seq"], row["last_seq"]) for row in tables.times if row["is_uneven"]
    ]
    files = F.broadcast(table_of(session, uneven, "router long, boot long, first_seq long, last_seq long"))
    lines = tables.rows.where("mono IS NOT NULL").join(files, ["router", "boot"], "inner")
    each = lines.where("seq BETWEEN first_seq AND last_seq").select(*edges.columns)
    return edges.unionByName(each).distinct()


def _boots(tables: Tables) -> DataFrame:
    """Return the runs of routers, each with its first event and the last."""
    ends: dict[tuple[int, int], list[int]] = {}
    for row in tables.times:
        ends.setdefault((row["router"], row["boot"]), []).extend((row["seq"], row["last_seq"] or row["seq"]))
    found = [(*key, min(seqs), max(seqs)) for key, seqs in ends.items()]
    return table_of(tables.rows.sparkSession, found, "router long, boot long, seq long, last_seq long")


def odd(lines: DataFrame, *more: Column) -> DataFrame:
    """Return the accepted lines that `owed_sql.OWED` reads, with these columns in addition. `lines`: `router`, `seq`,
    `n`, `recipients`, `said`."""
    app = F.expr(
        "CASE WHEN size(recipients) = 0 THEN NULL WHEN said.kind = 'copy' THEN recipients[0] ELSE said.destination END"
    )
    is_odd = (
        "size(recipients) = 0 OR said.kind = 'copy' "
        "OR said.kind = 'unicast' AND NOT array_contains(recipients, said.destination)"
    )
    return lines.where(is_odd).select("router", F.col("said.peer").alias("peer"), "seq", "n", app.alias("app"), *more)


def _copied(tables: Tables) -> DataFrame:
    lines = tables.accepted.where("is_within AND said.kind = 'copy'").groupBy(
        "router", F.col("said.peer").alias("peer")
    )
    return lines.agg(F.sum("n").alias("count"), F.min("seq").alias("seq"))


def copied_by_nobody(tables: Tables, change: DataFrame) -> Rows:
    """Return the claims of copies that no service sent. `tables`: of all lines; `change`: as of `change_of`."""
    sources = {"change": change, "log": log_of(tables), "copied": _copied(tables)}
    told = rows(named(made(COPIED, sources, 0), tables.routers))
    ids = ids_of(tables, told)
    return [row_of("copied-by-nobody", row, ids.get((row["router"], row["seq"]))) for row in told]


def _sent(tables: Tables) -> DataFrame:
    alone = F.expr("CASE WHEN size(recipients) = 1 THEN recipients[0] END").alias("alone")
    ids = F.expr("CASE WHEN size(recipients) = 1 THEN lower(hex(ids)) END").alias("alone_ids")
    lines = tables.accepted.where("is_within AND said.kind = 'multicast'")
    group = F.col("said.signer").alias("group_key")
    return lines.select("router", "seq", "n", group, "said.peer", "recipients", alone, ids)


def asked_as_history(change: DataFrame) -> DataFrame:
    """Return the ids of messages that were asked for as history, each once. `change`: as of `change_of`."""
    each = F.explode(F.expr("sequence(0, cast(length(ids) / 64 AS int) - 1)")).alias("i")
    asked = change.where(F.col("event") == presence_sql.HISTORY).select("ids", each)
    return asked.select(F.expr("unhex(substr(ids, 64 * i + 1, 64))").alias("id")).distinct()


def had_first(acceptances: DataFrame) -> DataFrame:
    """Return when routers accepted messages first, as `history_sql.NO_HISTORY` reads it. `acceptances`: `id`,
    `router`, `seq`, `t`."""
    sums = acceptances.groupBy("router", "id").agg(F.min("seq").alias("seq"), F.min("t").alias("t"))
    return sums.withColumn("id", F.lower(F.hex("id")))


def had(tables: Tables) -> DataFrame:
    at = F.explode(F.expr("sequence(0L, n - 1)")).alias("i")
    each = tables.accepted.select("router", "seq", "t", "n", "ids", at).withColumn("id", F.expr(ID))
    return had_first(each.join(asked_as_history(change_of(tables.others)), "id", "left_semi"))


def left(lines: DataFrame) -> DataFrame:
    """Return the lines of messages that were dropped because the recipient had left."""
    found = lines.where("event = 'dropped' AND reason = 'left' AND recipient IS NOT NULL")
    return found.select("router", "parcel", "recipient", "seq", "count")


def _owed_lines(tables: Tables) -> DataFrame:
    lines = tables.accepted.where("is_within AND said.kind = 'multicast'")
    return lines.select("router", "parcel", "seq", F.col("said.signer").alias("group_key"))


def not_left(tables: Tables, sources: Mapping[str, DataFrame]) -> Rows:
    """Return the claims of messages dropped for somebody who had not left. `tables`: of all lines; `sources`: what else
    `presence_sql.NOT_LEFT` reads."""
    told = rows(named(made(presence_sql.NOT_LEFT, {**sources, "owed_line": _owed_lines(tables)}, 0), tables.routers))
    ids = ids_of(tables, told)
    return [row_of("not-left", row, ids.get((row["router"], row["seq"]))) for row in told]


UNREAD = f"event = 'refused' AND reason = '{door_sql.UNJOINED}' AND kind IN ('multicast', 'copy')"
"""The lines of `ended_on_the_way` of multicasts, and copies of them, refused because nobody had joined."""


def unread(ended: DataFrame) -> DataFrame:
    """Return the multicasts, and copies of them, refused because nobody had joined. `ended`: as of
    `ended_on_the_way`."""
    lines = ended.where(UNREAD)
    return lines.select("router", "taker", "seq", "count", "group_key", "accepted_t", F.col("t").alias("refused_t"))


def blamed(ended: DataFrame) -> DataFrame:
    """Return the lines of messages that neighbours are said to have refused, as `door_sql` reads them. `ended`: as of
    `ended_on_the_way`."""
    lines = ended.where("event = 'refused'").where(~F.col("reason").isin(*NOT_BLAMED))
    return lines.select("router", "taker", "seq", "t", "count")


def runs_of(lines: DataFrame) -> DataFrame:
    """Return the runs of routers with the time of their first line. `lines`: `router`, `boot`, `seq`, `t`, `mono`; at
    least the first of each run."""
    timed = lines.where("mono IS NOT NULL").groupBy("router", "boot")
    return timed.agg(F.min_by("t", "seq").alias("start_t"))


def _runs(tables: Tables) -> DataFrame:
    return runs_of(tables.rows.select("router", "boot", "seq", "t", "mono"))


def stops_of(others: DataFrame) -> DataFrame:
    """Return how runs ended that did not end by a crash, of lines without a recipient."""
    return others.where("event = 'stop'").select("router", "boot", "t")


IS_DOOR_NAMED = "event = 'refused' AND other.ids IS NOT NULL"
"""Whether a line without a recipient names messages turned away as `door_sql.UNJOINED`."""


def doors_named(others: DataFrame) -> DataFrame:
    """Return the lines that name messages turned away: `router`, `peer`, `seq`, `ids`."""
    return others.where(IS_DOOR_NAMED).select("router", "other.peer", "seq", "other.ids")


def ids_at(doors: DataFrame) -> DataFrame:
    """Return each message of lines of `doors_named`, with its `id`."""
    each = F.explode(F.expr("sequence(0, cast(length(ids) div 64 AS int) - 1)")).alias("i")
    lines = doors.where("length(ids) >= 64").select("router", "peer", "seq", "ids", each)
    return lines.select("router", "peer", "seq", F.expr("substring(ids, 64 * i + 1, 64) AS id"))


def door_of(tables: Tables) -> DataFrame:
    """Return the lines of messages turned away at the door, of neighbours with a log here or of nobody by name."""
    known = F.broadcast(tables.routers.select(F.col("router").alias("peer"), F.lit(True).alias("is_known")))
    lines = tables.others.where(F.col("event").isin(*TURNED_EVENTS))
    lines = lines.select("router", "other.peer", "event", "reason", "seq", "count")
    return lines.join(known, "peer", "left").where("peer IS NULL OR is_known").drop("is_known")


def _turned(tables: Tables) -> DataFrame:
    known = F.broadcast(tables.routers.select(F.col("router").alias("peer")))
    lines = tables.others.where(F.col("event").isin(*TURNED_EVENTS)).where(tables.span.is_within())
    return lines.select("router", "other.peer", "seq", "t", "count").join(known, "peer", "left_semi")


def _handed(tables: Tables) -> DataFrame:
    known = F.broadcast(tables.routers.select(F.col("router").alias("recipient")))
    lines = tables.rows.where("event IN ('forwarded', 'pulled')").join(known, "recipient", "left_semi")
    return lines.groupBy("router", "recipient").agg(F.sum("count").alias("count"))


def room(tables: Tables) -> DataFrame:
    """Return the limits that logs tell, as `refusal_sql` reads them."""
    limits = (F.expr(NUMBER_OF_TEXT.format(f"other.fields['{name}']")).alias(name) for name in LIMITS)
    return tables.others.where("event = 'config'").select("router", *limits)


_LARGEST = "coalesce(array_max(sizes), bytes div n) AS bytes"


def _of_filled(tables: Tables) -> dict[str, DataFrame]:
    said = tables.rows.where(f"event = 'refused' AND reason = '{FULL}'").select("router", "recipient")
    filled = F.broadcast(said.distinct())
    lines = tables.accepted.select("router", "seq", "n", F.expr(_LARGEST), F.explode("recipients").alias("recipient"))
    ends = tables.rows.where(F.col("event").isin(*ENDS)).join(filled, ["router", "recipient"], "left_semi")
    return {
        "owed": lines.join(filled, ["router", "recipient"], "left_semi"),
        "ended": ends.selectExpr("router", "recipient", "seq", "count", "coalesce(reason, '') AS reason"),
    }


def _of_crowded(tables: Tables) -> dict[str, DataFrame]:
    said = tables.rows.where(f"event = 'refused' AND reason = '{FULL_GROUP}' AND recipient IS NOT NULL")
    crowded = F.broadcast(said.select("router").distinct())
    lines = tables.accepted.join(crowded, "router", "left_semi")
    ends = tables.rows.where(F.col("event").isin(*ENDS) & F.col("recipient").isNotNull())
    ends = ends.join(crowded, "router", "left_semi")
    ended = ends.select("router", "parcel", "recipient", "seq", "count", F.expr("coalesce(reason, '') AS reason"))
    sent = lines.select("router", "parcel", "said.signer", "said.peer")
    each = F.explode("recipients").alias("recipient")
    return {
        "held": lines.select("router", each, "said.signer", "said.peer", "seq", "n", F.expr(_LARGEST)),
        "released": ended.join(sent, ["router", "parcel"], "inner"),
    }


_FROM, _UNTIL = "greatest(0L, part[0] - parcel)", "greatest(0L, part[0] - parcel + part[1])"
_WAITING = f"""CASE WHEN mono IS NULL OR coalesce(ttl_s, 0L) = 0 THEN 0L WHEN ttls IS NULL THEN count
    ELSE aggregate(parts, 0L, (all, part) -> all + size(filter(
        slice(ttls, cast({_FROM} + 1 AS int), cast({_UNTIL} - {_FROM} AS int)), ttl -> ttl > 0)))
    END"""
"""SQL for how many of the messages that a line names have a ttl longer than 0."""


def _declined(tables: Tables) -> DataFrame:
    lines = tables.accepted.where("is_within").select(
        "router",
        "parcel",
        F.col("seq").alias("accepted_seq"),
        F.expr("n * size(recipients)").alias("units"),
        F.col("said.signer").alias("group_key"),
        F.col("boot").alias("accepted_boot"),
        F.col("mono").alias("accepted_mono"),
        "ttl_s",
        "ttls",
        F.expr(_LARGEST),
    )
    ends = tables.rows.where("event = 'refused' AND recipient IS NOT NULL AND reason IS NOT NULL")
    columns = ("router", "parcel", "recipient", "reason", "seq", "count", "boot", "mono", "link")
    parts = F.expr("concat(array(array(range_first, range_count)), coalesce(more_ranges, array()))").alias("parts")
    ends = ends.select(*columns, parts)
    is_at_once = F.expr("coalesce(boot = accepted_boot AND mono = accepted_mono, true)").alias("is_at_once")
    return ends.join(lines, ["router", "parcel"], "inner").select("*", is_at_once, F.expr(_WAITING).alias("waiting"))


def _written(tables: Tables) -> DataFrame:
    ends = tables.rows.where("event = 'refused' AND recipient IS NOT NULL").select("router", "parcel").distinct()
    lines = tables.rows.where("event = 'forwarded'").select("router", "parcel", "recipient", "seq")
    return lines.join(ends, ["router", "parcel"], "left_semi")


def _settled(tables: Tables) -> DataFrame:
    refusing = tables.rows.where(f"event = 'refused' AND reason = '{TOO_LARGE}'").select("router", "recipient")
    ends = tables.rows.where(F.col("event").isin(*ARRIVALS))
    ends = ends.join(F.broadcast(refusing.distinct()), ["router", "recipient"], "left_semi")
    lines = tables.accepted.select("router", "parcel", F.expr(_LARGEST.replace("array_max", "array_min")))
    ended = ends.select("router", "parcel", "boot", "link", "recipient")
    return ended.join(lines, ["router", "parcel"], "inner").drop("parcel")


def ids_of(tables: Tables, told: Rows) -> dict[tuple[str, int], str]:
    """Return the id of the first message of each line, by router and event. `tables`: of all lines; `told`: rows with a
    router's key and the event of a line."""
    lines_told = sorted({(row["router"], row["seq"]) for row in told})
    wanted = table_of(tables.rows.sparkSession, lines_told, "key string, seq long")
    numbers = tables.routers.select(F.col("number").alias("router"), F.col("router").alias("key"))
    wanted = F.broadcast(wanted.join(numbers, "key", "inner"))
    lines = tables.accepted.select("router", "parcel", "seq", "n", "ids")
    accepted = lines.join(wanted, ["router", "seq"], "inner").withColumn("i", F.lit(0))
    ends = tables.rows.where("recipient IS NOT NULL").select("router", "parcel", "seq", "range_first")
    ended = ends.join(wanted, ["router", "seq"], "inner").join(lines.drop("seq"), ["router", "parcel"], "inner")
    ended = ended.withColumn("i", F.expr("range_first - parcel")).where("i BETWEEN 0 AND n - 1")
    columns = ("key", "seq", F.lower(F.hex(F.expr(ID))).alias("id"))
    return {
        (row["key"], row["seq"]): row["id"] for row in rows(accepted.select(*columns).union(ended.select(*columns)))
    }
