-- Which queues grow, and when is each full at the growth of that hour, the soonest first? full in: from the hour's end.
-- limit: number = 20; how many rows to return
SELECT router, recipient, hour, growth, open, messages_max AS most, full_in_s * 1000000000 AS full_in_ns
FROM queue_hour
WHERE full_in_s IS NOT NULL AND NOT is_spoilt
ORDER BY full_in_s, open DESC, router, recipient, hour
LIMIT $limit
