-- For which share of the time was a link up, from its first hour until a week after its last? spoilt: hours left out.
-- limit: number = 20; how many rows to return
SELECT router, neighbour,
    floor(
        CAST(sum(CASE WHEN is_spoilt THEN 0 ELSE up_ns END) AS DOUBLE) * 10000
        / nullif(sum(CASE WHEN is_spoilt THEN 0 ELSE span_ns END), 0)
    ) / 100 AS up_percent,
    CAST(sum(CASE WHEN is_spoilt THEN 0 ELSE span_ns - up_ns END) AS BIGINT) AS down_ns,
    CAST(sum(ups) AS BIGINT) AS ups,
    CAST(sum(downs) AS BIGINT) AS downs,
    CAST(sum(CASE WHEN is_spoilt THEN 1 ELSE 0 END) AS BIGINT) AS spoilt
FROM link_hour
GROUP BY router, neighbour
HAVING sum(span_ns) > 0
ORDER BY up_percent IS NULL, up_percent, router, neighbour
LIMIT $limit
