-- Which share of the messages was settled or taken over within so many milliseconds, of those that were, by router?
-- ms: number = 5000; milliseconds from acceptance at the router to the end of the hop
-- limit: number = 20; how many rows to return
WITH waits AS (
    SELECT router, event, count,
        CAST(
            (bucket + 1 - 128 * greatest(0, floor(bucket / 128) - 1)) * power(2, greatest(0, floor(bucket / 128) - 1))
            AS BIGINT
        ) - 1 AS edge_ns, max_ns
    FROM hop_latency
)
SELECT router, event,
    CAST(sum(count) AS BIGINT) AS messages,
    CAST(sum(CASE WHEN least(edge_ns, max_ns) > CAST($ms AS BIGINT) * 1000000 THEN count ELSE 0 END) AS BIGINT) AS late,
    floor(
        CAST(sum(CASE WHEN least(edge_ns, max_ns) > CAST($ms AS BIGINT) * 1000000 THEN 0 ELSE count END) AS DOUBLE)
        * 10000 / sum(count)
    ) / 100 AS within_percent
FROM waits
GROUP BY router, event
ORDER BY within_percent, router, event
LIMIT $limit
