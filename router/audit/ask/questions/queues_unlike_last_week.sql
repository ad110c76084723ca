-- Which queues are longer or shorter than in the same hour a week before? week before: none if it was not known then.
-- limit: number = 20; how many rows to return
SELECT router, recipient, hour, open,
    week_open AS week_before,
    open - coalesce(week_open, 0) AS more,
    full_in_s * 1000000000 AS full_in_ns
FROM queue_hour
WHERE open <> coalesce(week_open, 0) AND NOT is_spoilt
ORDER BY abs(open - coalesce(week_open, 0)) DESC, router, recipient, hour
LIMIT $limit
