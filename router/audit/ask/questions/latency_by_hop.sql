-- How long does each hop take, from acceptance at a router until the next router takes over, the slowest first?
-- limit: number = 20; how many rows to return
WITH waits AS (
    SELECT router, recipient, bucket, sum(count) AS n, max(max_ns) AS max_ns
    FROM hop_latency
    WHERE event = 'acked'
    GROUP BY router, recipient, bucket
),
ranked AS (
    SELECT router, recipient,
        sum(n) OVER (PARTITION BY router, recipient ORDER BY bucket) AS so_far,
        sum(n) OVER (PARTITION BY router, recipient) AS total,
        max(max_ns) OVER (PARTITION BY router, recipient) AS greatest_ns,
        CAST(
            (bucket + 1 - 128 * greatest(0, floor(bucket / 128) - 1)) * power(2, greatest(0, floor(bucket / 128) - 1))
            AS BIGINT
        ) - 1 AS edge_ns
    FROM waits
)
SELECT router, recipient AS neighbour,
    CAST(max(total) AS BIGINT) AS messages,
    least(min(CASE WHEN so_far * 100 >= total * 50 THEN edge_ns END), max(greatest_ns)) AS p50_ns,
    least(min(CASE WHEN so_far * 100 >= total * 99 THEN edge_ns END), max(greatest_ns)) AS p99_ns,
    max(greatest_ns) AS max_ns
FROM ranked
GROUP BY router, recipient
ORDER BY p99_ns DESC, router, recipient
LIMIT $limit
