-- For which reasons was how much turned away, hour by hour?
-- limit: number = 20; how many rows to return
SELECT hour, event, reason, count(DISTINCT router) AS routers, CAST(sum(count) AS BIGINT) AS messages
FROM abuse_hour
GROUP BY hour, event, reason
ORDER BY hour DESC, messages DESC, event, reason NULLS LAST
LIMIT $limit
