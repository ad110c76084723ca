-- For which share of the time was a link up, from its first hour on? A week after it went away it no longer counts.
-- limit: number = 20; how many rows to return
SELECT router, neighbour,
    floor(CAST(sum(up_ns) AS DOUBLE) * 10000 / sum(span_ns)) / 100 AS up_percent,
    CAST(sum(span_ns - up_ns) AS BIGINT) AS down_ns,
    CAST(sum(ups) AS BIGINT) AS ups,
    CAST(sum(downs) AS BIGINT) AS downs
FROM link_hour
GROUP BY router, neighbour
HAVING sum(span_ns) > 0
ORDER BY up_percent, router, neighbour
LIMIT $limit
