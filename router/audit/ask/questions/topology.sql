-- Which links between routers were up at a time, and since when? until: when each came to its end.
-- at: time = 2262-01-01; the time
-- limit: number = 100; how many rows to return
SELECT router, neighbour, since_ns AS since_t, until_ns AS until_t
FROM topology
WHERE since_ns <= $at AND (until_ns IS NULL OR until_ns > $at)
ORDER BY router, neighbour
LIMIT $limit
