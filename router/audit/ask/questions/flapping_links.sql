-- Which links between routers went up and down most often?
-- limit: number = 20; how many rows to return
SELECT router, subject AS neighbour,
    CAST(sum(CASE WHEN event = 'link_up' THEN changes ELSE 0 END) AS BIGINT) AS ups,
    CAST(sum(CASE WHEN event = 'link_down' THEN changes ELSE 0 END) AS BIGINT) AS downs,
    min(t) AS first_t,
    max(t) AS last_t
FROM route_change
WHERE event IN ('link_up', 'link_down') AND subject IS NOT NULL
GROUP BY router, subject
ORDER BY ups DESC, downs DESC, router, neighbour
LIMIT $limit
