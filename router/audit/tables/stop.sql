-- Each message at each router that accepted it in the audit's time span: its units there by state.
-- broken: the router handed it to another whose log, whole up to then, lacks it; beyond: the taker's log is not given.
-- first: when it was accepted first, copies that the router sends on left aside, and by 1 more than the number of the
-- router that brought it then (0: none with a log here), as one number. settled_ns: from its acceptance until the last
-- local recipient had settled it.
-- Few messages are accepted several times at one router; the rows of the others are not added up.
CREATE TABLE acceptance_of_message AS
WITH several AS (
    SELECT line, i, TRUE AS is_several
    FROM accepted_id
    SEMI JOIN (
        SELECT low, high FROM message_id WHERE is_again
        UNION ALL
        SELECT low, high FROM accepted_id WHERE is_copy
    ) more USING (low, high)
),
arrival AS (
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
                CASE WHEN taker IS NULL THEN 4294967295 ELSE 0 END AS is_beyond
            FROM block
            SEMI JOIN owed USING (line, recipient)
            LEFT JOIN taker USING (recipient)
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
counted AS (
    SELECT
        arrival.id, arrival.router, is_several, arrival.t,
        CASE WHEN kind IS DISTINCT FROM 'copy' THEN (arrival.t::HUGEINT << 20)
            + CASE WHEN signer IS DISTINCT FROM peer THEN coalesce(taker + 1, 0) ELSE 0 END END AS first,
        greatest(whole_wait.settled_ns, part_wait.settled_ns) AS settled_ns,
        coalesce(recipients.owed, 0)::INTEGER AS owed,
        coalesce(delivered, 0)::INTEGER AS delivered,
        coalesce(acked, 0)::INTEGER AS acked,
        coalesce(unconfirmed, 0)::INTEGER AS unconfirmed,
        coalesce(refused, 0)::INTEGER AS refused,
        coalesce(expired, 0)::INTEGER AS expired,
        coalesce(dropped, 0)::INTEGER AS dropped,
        coalesce(evicted, 0)::INTEGER AS evicted,
        coalesce(broken, 0)::INTEGER AS broken,
        coalesce(beyond, 0)::INTEGER AS beyond,
        coalesce(flying, 0)::INTEGER AS flying,
        hole_first, is_over
    FROM arrival
    JOIN accepted USING (line)
    LEFT JOIN taker ON taker.recipient = accepted.peer
    LEFT JOIN recipients USING (line)
    LEFT JOIN bits USING (line, i)
    LEFT JOIN whole_wait USING (line)
    LEFT JOIN part_wait USING (line, i)
    LEFT JOIN handed USING (line, i)
    LEFT JOIN several USING (line, i)
)
SELECT * EXCLUDE (t, flying, hole_first, is_over), t AS first_t,
    owed - delivered - acked - unconfirmed - refused - expired - dropped - evicted AS open,
    CASE WHEN hole_first IS NOT NULL THEN open ELSE 0 END AS unknown,
    CASE WHEN hole_first IS NOT NULL THEN 0 WHEN is_over THEN flying ELSE open END AS pending,
    CASE WHEN hole_first IS NULL AND is_over THEN open - flying ELSE 0 END AS unaccounted
FROM counted;

CREATE VIEW each_stop AS
SELECT id, router, first_t, first, settled_ns, owed, delivered, acked, unconfirmed, refused, expired, dropped, evicted,
    unknown, pending, unaccounted, broken, beyond
FROM acceptance_of_message
WHERE is_several IS NULL
UNION ALL
SELECT
    id, router,
    min(first_t),
    min(first),
    max(settled_ns),
    sum(owed)::BIGINT,
    sum(delivered)::BIGINT,
    sum(acked)::BIGINT,
    sum(unconfirmed)::BIGINT,
    sum(refused)::BIGINT,
    sum(expired)::BIGINT,
    sum(dropped)::BIGINT,
    sum(evicted)::BIGINT,
    sum(unknown)::BIGINT,
    sum(pending)::BIGINT,
    sum(unaccounted)::BIGINT,
    sum(broken)::BIGINT,
    sum(beyond)::BIGINT
FROM acceptance_of_message
WHERE is_several
GROUP BY id, router;

-- t: when the router accepted the message first, of copies alone when it sent the first; neighbour: who brought it then.
CREATE VIEW stop_of_message AS
SELECT * EXCLUDE (first), coalesce((first >> 20)::BIGINT, first_t) AS t,
    nullif((first & 1048575)::INTEGER, 0) - 1 AS neighbour
FROM each_stop;
