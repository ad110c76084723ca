-- Of which logs is evidence missing or doubtful? first, last: the events that the audit has; pruned: up to which event.
-- limit: number = 20; how many rows to return
SELECT router, CASE WHEN whole THEN 'yes' ELSE 'no' END AS whole,
    segments, first_seq, last_seq, pruned_to AS pruned
FROM log_coverage
ORDER BY whole, router
LIMIT $limit
