-- Which groups were joined and left most often, and at which router?
-- limit: number = 20; how many rows to return
SELECT subject AS group_key, router,
    CAST(sum(CASE WHEN event = 'join' THEN changes ELSE 0 END) AS BIGINT) AS joins,
    CAST(sum(CASE WHEN event = 'leave' THEN changes ELSE 0 END) AS BIGINT) AS leaves,
    max(t) AS last_t
FROM route_change
WHERE event IN ('join', 'leave') AND subject IS NOT NULL
GROUP BY subject, router
ORDER BY joins DESC, leaves DESC, group_key, router
LIMIT $limit
