-- What was odd in the lines of the logs, and how often, by router?
-- limit: number = 20; how many rows to return
SELECT *
FROM data_quality
WHERE count > 0
ORDER BY 1, 2 NULLS LAST, 3
LIMIT $limit
