-- Which groups carry the most messages, and how many of the copies that they owe arrived at their hop?
-- limit: number = 20; how many rows to return
SELECT signer AS group_key, count(DISTINCT router) AS routers, count(DISTINCT recipient) AS readers,
    CAST(sum(owed) AS BIGINT) AS owed,
    CAST(sum(delivered + acked) AS BIGINT) AS arrived,
    CAST(sum(unaccounted + expired + refused + dropped + evicted) AS BIGINT) AS failed
FROM delivery
WHERE kind = 'multicast'
GROUP BY signer
ORDER BY owed DESC, group_key
LIMIT $limit
