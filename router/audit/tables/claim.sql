-- The lines of which the texts of `claim_sql` find claims (spark_analytics/judgement/claim_sql.py), with the columns that
-- it names. What else they read stands in router/audit/claims.py.

CREATE TABLE change AS
SELECT router, seq, t, mono, boot, event, fields['peer'] AS peer, fields['standing'] AS standing,
    fields['group'] AS group_key, fields['subscriber'] AS subscriber, fields['service'] AS service,
    fields['old'] AS old_key, fields['new'] AS new_key, fields['router'] AS asked_key,
    fields['doubted'] AS doubted,
    number_of_text(fields['link']) AS link,
    number_of_text(fields['clock_moves_s_max']) AS clock_moves_s_max,
    number_of_text(fields['history_open_max']) AS history_open_max,
    number_of_text(fields['groups_per_client_max']) AS groups_per_client_max, ids,
    coalesce(fields['uplink'] = 'true' OR fields['blocked'] = 'true' OR fields['removed'] = 'true'
        OR fields['revoked'] <> '', FALSE) AS is_doubtful
FROM events
WHERE recipient IS NULL AND list_contains(getvariable('change_events'), event);

-- Messages that ended as expired or refused (`is_never`: for a reason for which nobody refuses what it has accepted) at a
-- recipient whose log says that it accepted them first from this very router. A message that this router owed to it more
-- than once, as it accepted it again or sent copies, went there another time unless all of these ended so (`ended`); it
-- counts once, with its first end. The steps are tables of numbers: DuckDB 2.0
-- fails with an internal error ("dict-surviving join") where the right side of a join is made of text of `events`.
CREATE TABLE ended_there AS
SELECT e.router, there.router AS taker, e.event = 'expired' AS is_expired,
    e.event = 'refused' AND coalesce(list_contains(getvariable('never_again'), e.reason), FALSE) AS is_never,
    e.seq, e.t, e.parcel, e.range_first, e.n, e.more_ranges
FROM events e JOIN routers there ON there.key = e.recipient
WHERE e.event IN ('expired', 'refused');

CREATE TABLE part_there AS
SELECT router, taker, is_expired, is_never, seq, t, parcel,
    unnest(list_concat([[range_first, n]], coalesce(more_ranges, []))) AS part
FROM ended_there;

CREATE TABLE message_there AS
SELECT ended.router, taker, is_expired, is_never, ended.seq, ended.t, line.line,
    unnest(range(greatest(0, part[1] - ended.parcel), least(line.n, part[1] - ended.parcel + part[2])))::INTEGER AS i
FROM (SELECT line, router, parcel, n FROM accepted WHERE is_within) line
JOIN part_there ended ON ended.router = line.router AND ended.parcel = line.parcel;

CREATE TABLE id_there AS
SELECT message.*, low, high
FROM (SELECT line, i, low, high FROM accepted_id) named
JOIN message_there message ON message.line = named.line AND message.i = named.i;

CREATE TABLE gone_there AS
WITH given AS (
    SELECT line, router, low, high, is_within, is_copy FROM accepted_id SEMI JOIN id_there USING (router, low, high)
),
once AS (
    SELECT router, low, high
    FROM given
    GROUP BY router, low, high
    HAVING count(*) FILTER (is_within) = 1 AND NOT bool_or(is_copy)
),
sent AS (
    SELECT given.router, taker, low, high, count(*) AS times
    FROM (SELECT * FROM given ANTI JOIN once USING (router, low, high)) given
    JOIN owed USING (line)
    JOIN taker USING (recipient)
    GROUP BY given.router, taker, low, high
),
ended AS (
    SELECT router, taker, low, high, count(*) AS times, min(seq) AS seq, bool_and(is_never) AS is_never
    FROM id_there
    GROUP BY router, taker, low, high
),
here AS (
    SELECT router, taker, is_expired, is_never, seq, t, line, i, low, high
    FROM id_there SEMI JOIN once USING (router, low, high)
    UNION ALL
    SELECT router, taker, is_expired, ended.is_never, seq, t, line, i, low, high
    FROM id_there JOIN ended USING (router, taker, low, high, seq) JOIN sent USING (router, taker, low, high, times)
),
acceptance AS (
    SELECT router, low, high, t, brought, line
    FROM accepted_id SEMI JOIN (SELECT taker AS router, low, high FROM id_there) wanted USING (router, low, high)
    WHERE NOT is_copy
),
there AS (
    SELECT router AS taker, low, high, min({'t': t, 'brought': coalesce(brought, -1)}) AS first, min(seq) AS seq
    FROM (SELECT line, seq FROM accepted) line JOIN acceptance USING (line)
    GROUP BY router, low, high
)
SELECT here.router, here.taker, is_expired, is_never, here.seq, here.t, here.line, i, first.t AS there_t,
    there.seq AS there_seq
FROM here JOIN there USING (taker, low, high)
WHERE first.brought = here.router;

-- Bounds of a taker's clock minus the router's at any time of their logs, by what each of both handed to the other: as wide
-- as either clock moved against its monotonic one, which a router tells only of more than it lets pass.
CREATE TABLE apart AS
WITH bound AS (
    SELECT router, taker, max(lower_ns) AS lower_ns, max(upper_ns) AS upper_ns FROM handover GROUP BY router, taker
),
both_ways AS (
    SELECT router, taker, max(lower_ns) AS lower_ns, min(upper_ns) AS upper_ns
    FROM (FROM bound UNION ALL SELECT taker, router, -upper_ns, -lower_ns FROM bound)
    GROUP BY router, taker
),
moved AS (
    SELECT router, coalesce(max(max_apart_ns)::HUGEINT - min(min_apart_ns), 0) AS ns FROM stretch GROUP BY router
)
SELECT both_ways.router, taker, lower_ns - here.ns - there.ns AS lower_ns, upper_ns + here.ns + there.ns AS upper_ns
FROM both_ways JOIN moved here ON here.router = both_ways.router JOIN moved there ON there.router = both_ways.taker;
