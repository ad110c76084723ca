-- Which queues are longer or shorter than in the same hour a week before? Not shown: queues that were not known then.
-- limit: number = 20; how many rows to return
SELECT router, recipient, hour, open,
    week_open AS week_before,
    open - week_open AS more,
    full_in_s * 1000000000 AS full_in_ns
FROM queue_hour
WHERE open <> week_open AND NOT is_spoilt
ORDER BY abs(open - week_open) DESC, router, recipient, hour
LIMIT $limit
