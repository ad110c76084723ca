-- How complete is each router: which share of what it owed arrived at its hop, and what became of the rest?
-- limit: number = 20; how many rows to return
SELECT router,
    CAST(sum(owed) AS BIGINT) AS owed,
    floor(CAST(sum(delivered + acked) AS DOUBLE) * 10000 / sum(owed)) / 100 AS arrived_percent,
    CAST(sum(refused + expired + dropped + evicted + unconfirmed) AS BIGINT) AS ended,
    CAST(sum(pending) AS BIGINT) AS pending,
    CAST(sum(unknown) AS BIGINT) AS unknown,
    CAST(sum(unaccounted) AS BIGINT) AS lost
FROM audit_window
GROUP BY router
HAVING sum(owed) > 0
ORDER BY arrived_percent, router
LIMIT $limit
