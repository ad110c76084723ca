-- Which groups carry the most bytes at the routers that accepted them, and how much of what was owed arrived at its hop?
-- limit: number = 20; how many rows to return
SELECT group_key, count(DISTINCT router) AS routers,
    CAST(sum(messages) AS BIGINT) AS messages,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    CAST(sum(owed) AS BIGINT) AS owed,
    CAST(sum(delivered + acked) AS BIGINT) AS arrived
FROM group_hour
GROUP BY group_key
ORDER BY bytes DESC, owed DESC, group_key
LIMIT $limit
