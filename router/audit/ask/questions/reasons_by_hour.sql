-- For which reasons did messages end, or were they turned away, hour by hour? bytes: of what was turned away at the door.
-- limit: number = 20; how many rows to return
SELECT hour, event, reason, count(DISTINCT router) AS routers,
    CAST(sum(count) AS BIGINT) AS messages,
    CAST(sum(bytes) AS BIGINT) AS bytes
FROM reason_hour
GROUP BY hour, event, reason
ORDER BY hour DESC, messages DESC, event, reason
LIMIT $limit
