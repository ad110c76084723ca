-- Which files do not count, and for which events?
-- limit: number = 20; how many rows to return
SELECT path, status, router, first_seq, last_seq, lines
FROM quarantine
ORDER BY path, status
LIMIT $limit
