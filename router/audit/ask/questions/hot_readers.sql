-- Which recipients get the most messages from their router?
-- limit: number = 20; how many rows to return
SELECT recipient, router,
    CAST(sum(owed) AS BIGINT) AS owed,
    CAST(sum(delivered) AS BIGINT) AS delivered,
    CAST(sum(deliveries - delivered) AS BIGINT) AS doubled,
    max(t) AS last_t
FROM delivery
WHERE delivered > 0
GROUP BY recipient, router
ORDER BY delivered DESC, recipient, router
LIMIT $limit
