-- How much was handed over in vain: written to a link again, deferred, or delivered a second time?
-- limit: number = 20; how many rows to return
SELECT router, recipient,
    CAST(sum(owed) AS BIGINT) AS owed,
    CAST(sum(forwards) AS BIGINT) AS writes,
    CAST(sum(forwards - forwarded) AS BIGINT) AS again,
    CAST(sum(deferred) AS BIGINT) AS deferred,
    CAST(sum(deliveries - delivered) AS BIGINT) AS doubled
FROM delivery
GROUP BY router, recipient
HAVING sum(forwards - forwarded) + sum(deferred) + sum(deliveries - delivered) > 0
ORDER BY again DESC, deferred DESC, doubled DESC, router, recipient
LIMIT $limit
