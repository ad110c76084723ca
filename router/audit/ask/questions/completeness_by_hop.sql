-- How complete is each hop: which share of what a router owed to a recipient or to the next router arrived there?
-- limit: number = 20; how many rows to return
SELECT router, recipient,
    CAST(sum(owed) AS BIGINT) AS owed,
    floor(CAST(sum(delivered + acked) AS DOUBLE) * 10000 / sum(owed)) / 100 AS arrived_percent,
    CAST(sum(pending) AS BIGINT) AS pending,
    CAST(sum(unaccounted) AS BIGINT) AS lost
FROM delivery
GROUP BY router, recipient
HAVING sum(owed) > 0
ORDER BY arrived_percent, owed DESC, router, recipient
LIMIT $limit
