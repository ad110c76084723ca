-- When, where and for whom were messages lost? Each row is one batch with messages whose log is whole and tells no end.
-- limit: number = 20; how many rows to return
SELECT router, recipient, t, owed, unaccounted, seq AS event
FROM delivery
WHERE unaccounted > 0
ORDER BY t, router, recipient, seq
LIMIT $limit
