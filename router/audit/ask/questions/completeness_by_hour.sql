-- How complete is each hour in which messages were accepted? judged: every router's log goes on long enough to tell.
-- limit: number = 20; how many rows to return
SELECT CAST((minute - minute % 60) / 60 AS BIGINT) AS hour,
    count(DISTINCT router) AS routers,
    CAST(sum(owed) AS BIGINT) AS owed,
    floor(CAST(sum(delivered + acked) AS DOUBLE) * 10000 / sum(owed)) / 100 AS arrived_percent,
    CAST(sum(pending) AS BIGINT) AS pending,
    CAST(sum(unknown) AS BIGINT) AS unknown,
    CAST(sum(unaccounted) AS BIGINT) AS lost,
    min(CASE WHEN judged THEN 'yes' ELSE 'no' END) AS judged
FROM audit_window
GROUP BY CAST((minute - minute % 60) / 60 AS BIGINT)
HAVING sum(owed) > 0
ORDER BY hour DESC
LIMIT $limit
