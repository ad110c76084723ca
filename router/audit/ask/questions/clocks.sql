-- Between which bounds lies the clock of a neighbour minus the clock of the router?
-- limit: number = 20; how many rows to return
SELECT router, recipient AS neighbour, lower_ns AS at_least_ns, upper_ns AS at_most_ns, followed
FROM custody
WHERE lower_ns IS NOT NULL OR upper_ns IS NOT NULL
ORDER BY router, neighbour
LIMIT $limit
