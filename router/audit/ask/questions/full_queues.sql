-- Which queues grew longest, and when? open: messages in the queue at the end of that minute; now: at its last change.
-- limit: number = 20; how many rows to return
WITH ranked AS (
    SELECT router, recipient, minute, open,
        row_number() OVER (PARTITION BY router, recipient ORDER BY open DESC, minute) AS place,
        row_number() OVER (PARTITION BY router, recipient ORDER BY minute DESC) AS age
    FROM queue_minute
)
SELECT router, recipient,
    max(CASE WHEN place = 1 THEN open END) AS open,
    max(CASE WHEN place = 1 THEN minute END) AS minute,
    max(CASE WHEN age = 1 THEN open END) AS now
FROM ranked
GROUP BY router, recipient
HAVING max(CASE WHEN place = 1 THEN open END) > 0
ORDER BY open DESC, router, recipient
LIMIT $limit
