-- For which share of the time was a link up, from its first change to its router's last? A kill does not count as down.
-- limit: number = 20; how many rows to return
WITH ends AS (
    SELECT router, max(t) AS end_t FROM route_change GROUP BY router
),
steps AS (
    SELECT router, subject, event, t, seq,
        lead(t) OVER (PARTITION BY router, subject ORDER BY seq) AS next_t
    FROM route_change
    WHERE event IN ('link_up', 'link_down') AND subject IS NOT NULL
),
spans AS (
    SELECT steps.router, subject, event, t,
        greatest(0, coalesce(next_t, end_t) - t) AS span_ns
    FROM steps JOIN ends ON ends.router = steps.router
)
SELECT router, subject AS neighbour,
    floor(
        CAST(sum(CASE WHEN event = 'link_up' THEN span_ns ELSE 0 END) AS DOUBLE) * 10000 / sum(span_ns)
    ) / 100 AS up_percent,
    CAST(sum(CASE WHEN event = 'link_down' THEN span_ns ELSE 0 END) AS BIGINT) AS down_ns,
    max(CASE WHEN event = 'link_down' THEN span_ns END) AS longest_down_ns
FROM spans
GROUP BY router, subject
HAVING sum(span_ns) > 0
ORDER BY up_percent, router, neighbour
LIMIT $limit
