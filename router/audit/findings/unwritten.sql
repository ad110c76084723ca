-- Messages that were delivered or acknowledged, and that the router, whose log is whole from their acceptance on, never
-- wrote to that recipient. By router and recipient: the count, and the first event with the acceptance it names. A log is
-- judged if it tells of any message written, or is of a version that always does.
WITH judged AS (
    SELECT DISTINCT router FROM piece WHERE event = 'forwarded'
    UNION
    SELECT DISTINCT router FROM change WHERE clock_moves_s_max IS NOT NULL
),
unwritten AS (
    SELECT line, recipient,
        CASE WHEN is_whole THEN block.n ELSE 1 END * bit_count(((delivered | acked) & (~forwarded))::BIGINT) AS count,
        CASE WHEN is_whole THEN 0 ELSE
            32 * block + bit_count(
                (((delivered | acked) & (~forwarded))::BIGINT & -(((delivered | acked) & (~forwarded))::BIGINT)) - 1
            ) END AS i
    FROM block
    WHERE (delivered | acked) & (~forwarded) <> 0
),
told AS (
    SELECT line, recipient, sum(count)::BIGINT AS count, min(i) AS i
    FROM unwritten SEMI JOIN owed USING (line, recipient)
    GROUP BY line, recipient
),
unit AS (
    SELECT accepted.router, accepted.parcel, accepted.line, recipient, told.count, i, accepted.seq AS accepted_seq
    FROM accepted
    JOIN told USING (line)
    SEMI JOIN judged ON judged.router = accepted.router
    WHERE hole_first IS NULL AND is_within
),
arrival AS (
    SELECT e.router, e.parcel, keys.id AS recipient, e.seq
    FROM events e JOIN keys ON keys.key = e.recipient
    WHERE e.event IN ('delivered', 'acked')
),
ended AS (
    SELECT unit.router, unit.recipient, unit.count, i, line, accepted_seq, min(arrival.seq) AS seq
    FROM arrival JOIN unit USING (router, parcel, recipient)
    GROUP BY ALL
)
SELECT 'never-written' AS claim, routers.key AS router, keys.key AS peer, sum(ended.count)::BIGINT AS count,
    min({'seq': ended.seq, 'accepted_seq': accepted_seq, 'id': id_text(ids, i)}) AS first
FROM (SELECT line, ids FROM accepted_line) texts
JOIN ended USING (line)
JOIN routers ON routers.router = ended.router
JOIN keys ON keys.id = ended.recipient
GROUP BY routers.key, keys.key
ORDER BY ALL;
