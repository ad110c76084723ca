-- Which links between routers were up at a time, and since when?
-- at: time = 2262-01-01; the time
-- limit: number = 100; how many rows to return
WITH told AS (
    SELECT router, subject, event, t,
        row_number() OVER (PARTITION BY router, subject ORDER BY seq DESC) AS age
    FROM route_change
    WHERE event IN ('link_up', 'link_down') AND subject IS NOT NULL AND t <= $at
)
SELECT router, subject AS neighbour, t AS since_t
FROM told
WHERE age = 1 AND event = 'link_up'
ORDER BY router, neighbour
LIMIT $limit
