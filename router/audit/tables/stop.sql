-- Each message at each router that accepted it in the audit's time span: its units there by state.
-- broken: the router handed it to another whose log, whole up to then, lacks it; beyond: the taker's log is not given.
-- first: when it was accepted first, copies that the router sends on left aside, and by 1 more than the number of the
-- router that brought it then (0: none with a log here), as one number. settled_ns: from its acceptance until the last
-- local recipient had settled it.
CREATE TABLE each_stop AS
WITH arrival AS (
    SELECT line, router, i, id_text(ids, i) AS id, least(t, getvariable('as_of_ns')) AS t
    FROM (
        SELECT line.line, line.router, line.ids, line.t, unnest(range(line.n)) AS i
        FROM accepted_line line
        SEMI JOIN (SELECT * FROM accepted WHERE is_within) within USING (line)
    )
),
recipients AS (
    SELECT line, count(*) AS owed FROM owed GROUP BY line
),
bits AS (
    SELECT line, i,
        sum((delivered >> bit) & 1) AS delivered,
        sum(((acked & (~delivered)) >> bit) & 1) AS acked,
        sum(((unconfirmed & (~(delivered | acked))) >> bit) & 1) AS unconfirmed,
        sum(((refused & (~(delivered | acked | unconfirmed))) >> bit) & 1) AS refused,
        sum(((expired & (~(delivered | acked | unconfirmed | refused))) >> bit) & 1) AS expired,
        sum(((dropped & (~(delivered | acked | unconfirmed | refused | expired))) >> bit) & 1) AS dropped,
        sum(((evicted & (~(delivered | acked | unconfirmed | refused | expired | dropped))) >> bit) & 1) AS evicted,
        sum(((
            flying & (~(delivered | acked | unconfirmed | refused | expired | dropped | evicted))
        ) >> bit) & 1) AS flying,
        sum(((acked & (~delivered) & is_beyond) >> bit) & 1) AS beyond
    FROM (
        SELECT *, bit_of(i, is_whole) AS bit
        FROM (
            SELECT block.*, unnest(messages_of(block, n, block.is_whole))::INTEGER AS i,
                CASE WHEN routers.router IS NULL THEN 4294967295 ELSE 0 END AS is_beyond
            FROM block
            SEMI JOIN owed USING (line, recipient)
            JOIN keys ON keys.id = block.recipient
            LEFT JOIN routers ON routers.key = keys.key
        )
    )
    GROUP BY line, i
),
whole_wait AS (
    SELECT line, max(wait_ns) AS settled_ns
    FROM piece
    WHERE event = 'delivered' AND wait_ns >= 0 AND start = 0 AND stop = n AND n > 0
    GROUP BY line
),
part_wait AS (
    SELECT line, i, max(wait_ns) AS settled_ns
    FROM (
        SELECT line, wait_ns, unnest(range(start, stop))::INTEGER AS i
        FROM piece
        WHERE event = 'delivered' AND wait_ns >= 0 AND start < stop AND (start > 0 OR stop < n)
    )
    GROUP BY line, i
),
handed AS (
    SELECT line, i, count(*) AS broken FROM broken_handover GROUP BY line, i
),
judged AS (
    SELECT
        arrival.id, arrival.router, arrival.t,
        CASE WHEN kind IS DISTINCT FROM 'copy' THEN (arrival.t::HUGEINT << 20)
            + CASE WHEN signer IS DISTINCT FROM peer THEN coalesce(taker + 1, 0) ELSE 0 END END AS first,
        greatest(whole_wait.settled_ns, part_wait.settled_ns) AS settled_ns,
        coalesce(recipients.owed, 0) AS owed,
        coalesce(delivered, 0) AS delivered, coalesce(acked, 0) AS acked, coalesce(unconfirmed, 0) AS unconfirmed,
        coalesce(refused, 0) AS refused, coalesce(expired, 0) AS expired, coalesce(dropped, 0) AS dropped,
        coalesce(evicted, 0) AS evicted, coalesce(broken, 0) AS broken, coalesce(beyond, 0) AS beyond,
        coalesce(flying, 0) AS flying,
        hole_first, is_over,
        coalesce(recipients.owed, 0) - coalesce(
            delivered + acked + unconfirmed + refused + expired + dropped + evicted, 0
        ) AS open
    FROM arrival
    JOIN accepted USING (line)
    LEFT JOIN taker ON taker.recipient = accepted.peer
    LEFT JOIN recipients USING (line)
    LEFT JOIN bits USING (line, i)
    LEFT JOIN whole_wait USING (line)
    LEFT JOIN part_wait USING (line, i)
    LEFT JOIN handed USING (line, i)
)
SELECT
    id, router,
    min(t) AS first_t,
    min(first) AS first,
    max(settled_ns) AS settled_ns,
    sum(owed)::BIGINT AS owed,
    sum(delivered)::BIGINT AS delivered,
    sum(acked)::BIGINT AS acked,
    sum(unconfirmed)::BIGINT AS unconfirmed,
    sum(refused)::BIGINT AS refused,
    sum(expired)::BIGINT AS expired,
    sum(dropped)::BIGINT AS dropped,
    sum(evicted)::BIGINT AS evicted,
    coalesce(sum(open) FILTER (hole_first IS NOT NULL), 0)::BIGINT AS unknown,
    coalesce(sum(CASE WHEN is_over THEN flying ELSE open END) FILTER (hole_first IS NULL), 0)::BIGINT AS pending,
    coalesce(sum(open - flying) FILTER (hole_first IS NULL AND is_over), 0)::BIGINT AS unaccounted,
    sum(broken)::BIGINT AS broken,
    sum(beyond)::BIGINT AS beyond
FROM judged
GROUP BY id, router;

-- t: when the router accepted the message first, of copies alone when it sent the first; neighbour: who brought it then.
CREATE VIEW stop_of_message AS
SELECT * EXCLUDE (first), coalesce((first >> 20)::BIGINT, first_t) AS t,
    nullif((first & 1048575)::INTEGER, 0) - 1 AS neighbour
FROM each_stop;
