-- How often did routes, links to neighbours and subscriptions change, hour by hour and router by router?
-- limit: number = 20; how many rows to return
SELECT CAST((minute - minute % 60) / 60 AS BIGINT) AS hour, router, event,
    CAST(sum(changes) AS BIGINT) AS changes,
    count(DISTINCT subject) AS subjects
FROM route_change
WHERE event NOT IN ('link_up', 'link_down') OR subject IS NOT NULL
GROUP BY CAST((minute - minute % 60) / 60 AS BIGINT), router, event
ORDER BY hour DESC, changes DESC, router, event
LIMIT $limit
