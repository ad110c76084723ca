-- Who had the most turned away before it was accepted, by which router and for which reason?
-- limit: number = 20; how many rows to return
SELECT router, coalesce(peer, prefix) AS sender, event, reason,
    CAST(sum(count) AS BIGINT) AS messages,
    min(hour) AS hour
FROM abuse_hour
GROUP BY router, coalesce(peer, prefix), event, reason
ORDER BY messages DESC, router, sender NULLS LAST, event, reason NULLS LAST
LIMIT $limit
