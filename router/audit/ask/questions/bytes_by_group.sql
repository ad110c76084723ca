-- How many bytes of which group did routers accept, hour by hour? copied: what their services sent on to other routers.
-- limit: number = 20; how many rows to return
SELECT hour, group_key,
    CAST(sum(messages) AS BIGINT) AS messages,
    CAST(sum(bytes) AS BIGINT) AS bytes,
    CAST(sum(copied_bytes) AS BIGINT) AS copied,
    max(publishers) AS publishers,
    max(recipients) AS recipients
FROM group_hour
GROUP BY hour, group_key
ORDER BY hour DESC, bytes DESC, group_key
LIMIT $limit
