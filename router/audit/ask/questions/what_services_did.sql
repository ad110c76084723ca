-- What did the services of the routers do: which events did they write, how often, and of how many things?
-- limit: number = 20; how many rows to return
SELECT service, event, reason, count(DISTINCT router) AS routers,
    CAST(sum(lines) AS BIGINT) AS times,
    CAST(sum(count) AS BIGINT) AS things,
    min(hour) AS hour
FROM service_hour
GROUP BY service, event, reason
ORDER BY service, things DESC, event, reason NULLS LAST
LIMIT $limit
