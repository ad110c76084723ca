-- What ties the orders of two logs together, of the pairs in `untimed` (spark_analytics/judgement/order_sql.py): of each
-- parcel of which a router acknowledged messages, that it accepted the last of these before the last acknowledgement was
-- heard; and that the first of those that it had from there were accepted there before. Each counts where its router
-- accepted it first: a log whose beginning is pruned does not tell that of what came from elsewhere or was taken over, nor
-- does one that a neighbour saw reach further, which may have begun anew. A multicast may have come inside of a message for
-- the other router itself, on its way through this one; and what a service of this one sent on may have gone there before
-- this router accepted it.
CREATE TABLE tie AS
WITH handed AS (
    SELECT taken.line, recipient, taken.router, taker, kind, i, low, high
    FROM accepted_id
    JOIN (SELECT * FROM taken SEMI JOIN (SELECT router, other AS taker FROM untimed) pair USING (router, taker)) taken
        USING (line)
    WHERE is_of(i, block, is_whole) AND has(mask, i, is_whole)
),
acceptance AS (
    SELECT accepted_id.router, low, high, seq, accepted.t, accepted_id.brought, is_copy
    FROM (
        SELECT *
        FROM accepted_id
        SEMI JOIN (
            SELECT router, low, high FROM handed UNION ALL SELECT taker, low, high FROM handed
        ) told USING (router, low, high)
    ) accepted_id
    JOIN (SELECT line, seq, t FROM accepted) accepted USING (line)
),
first AS (
    SELECT acceptance.router, low, high, is_whole AND pruned_to = 0 AS is_from_first, bool_or(is_copy) AS has_copy,
        min({'seq': seq, 't': t, 'brought': coalesce(brought, -1)}) FILTER (NOT is_copy) AS said
    FROM acceptance JOIN routers USING (router)
    GROUP BY acceptance.router, low, high, is_whole, pruned_to
),
met AS (
    SELECT handed.line, handed.router, handed.taker, handed.recipient, here.said.seq AS seq, there.said.seq AS there_seq,
        there.said.t AS there_t, there.said.brought = handed.router AS is_brought, there.is_from_first AS is_first,
        there.said.brought = handed.router AND here.is_from_first AND NOT here.has_copy
            AND (handed.kind = 'unicast' OR carrier.router IS NULL) AS is_sent
    FROM handed
    JOIN first here ON here.router = handed.router AND here.low = handed.low AND here.high = handed.high AND here.said IS NOT NULL
    JOIN first there ON there.router = handed.taker AND there.low = handed.low AND there.high = handed.high
    LEFT JOIN (
        SELECT DISTINCT accepted.router, taker FROM accepted JOIN taker ON taker.recipient = accepted.destination
    ) carrier ON carrier.router = handed.router AND carrier.taker = handed.taker
),
heard AS (
    SELECT line.line, keys.id AS recipient, max(e.seq) AS seq, max_by(e.t, e.seq) AS t
    FROM (
        SELECT router, parcel, recipient, seq, t
        FROM events SEMI JOIN untimed USING (router)
        WHERE event = 'acked'
    ) e
    JOIN (SELECT id, key FROM keys SEMI JOIN (SELECT recipient AS id FROM met) other USING (id)) keys
        ON keys.key = e.recipient
    JOIN (SELECT line, router, parcel FROM accepted SEMI JOIN met USING (line)) line
        ON line.router = e.router AND line.parcel = e.parcel
    GROUP BY line.line, keys.id
)
SELECT taker AS router, met.router AS other, max(there_seq) AS seq, any_value(heard.seq) AS other_seq,
    any_value(heard.t) AS other_t, FALSE AS is_sent
FROM met JOIN heard USING (line, recipient)
WHERE is_brought OR is_first
GROUP BY line, met.router, taker, recipient
UNION ALL
SELECT router, taker, min(seq), min(there_seq), min_by(there_t, there_seq), TRUE
FROM met
WHERE is_sent
GROUP BY line, router, taker, recipient;
