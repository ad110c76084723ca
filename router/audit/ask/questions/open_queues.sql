-- For whom do messages still wait where the logs end, and when is the first of them due?
-- limit: number = 20; how many rows to return
SELECT router, recipient,
    CAST(sum(pending) AS BIGINT) AS pending,
    min(due_ns) AS due_t
FROM delivery
WHERE pending > 0
GROUP BY router, recipient
ORDER BY pending DESC, router, recipient
LIMIT $limit
