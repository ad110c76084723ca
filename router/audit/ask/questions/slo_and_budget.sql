-- Does each router keep the service level of the audit (--slo), and how much of its budget of misses is used?
-- limit: number = 20; how many rows to return
WITH sums AS (
    SELECT router, max(target_ppm) AS target_ppm,
        CAST(sum(owed) AS BIGINT) AS owed,
        CAST(sum(within) AS BIGINT) AS within,
        CAST(sum(late) AS BIGINT) AS late,
        CAST(sum(missed) AS BIGINT) AS missed,
        max(burn) AS worst_burn
    FROM slo_hour
    GROUP BY router
)
SELECT router, owed, late, missed,
    floor(CAST(within AS DOUBLE) * 10000 / owed) / 100 AS within_percent,
    CAST(target_ppm AS DOUBLE) / 10000 AS target_percent,
    floor(CAST(owed - within AS DOUBLE) * 100000000 / (CAST(owed AS DOUBLE) * (1000000 - target_ppm))) AS used_percent,
    worst_burn
FROM sums
ORDER BY used_percent DESC, router
LIMIT $limit
