-- How long did hops take, hour by hour of acceptance: delivered to local recipients, acked by the next router?
-- limit: number = 20; how many rows to return
WITH waits AS (
    SELECT CAST((minute - minute % 60) / 60 AS BIGINT) AS hour, event, bucket,
        sum(count) AS n, max(max_ns) AS max_ns
    FROM hop_latency
    GROUP BY CAST((minute - minute % 60) / 60 AS BIGINT), event, bucket
),
ranked AS (
    SELECT hour, event,
        sum(n) OVER (PARTITION BY hour, event ORDER BY bucket) AS so_far,
        sum(n) OVER (PARTITION BY hour, event) AS total,
        max(max_ns) OVER (PARTITION BY hour, event) AS greatest_ns,
        CAST(
            (bucket + 1 - 128 * greatest(0, floor(bucket / 128) - 1)) * power(2, greatest(0, floor(bucket / 128) - 1))
            AS BIGINT
        ) - 1 AS edge_ns
    FROM waits
)
SELECT hour, event,
    CAST(max(total) AS BIGINT) AS messages,
    least(min(CASE WHEN so_far * 100 >= total * 50 THEN edge_ns END), max(greatest_ns)) AS p50_ns,
    least(min(CASE WHEN so_far * 100 >= total * 99 THEN edge_ns END), max(greatest_ns)) AS p99_ns,
    max(greatest_ns) AS max_ns
FROM ranked
GROUP BY hour, event
ORDER BY hour DESC, event
LIMIT $limit
