-- Why messages of services have ended without having been read, and an example of what has no end.
SELECT key AS router, service, state, recipient, reason, count(*) AS count, min(number) AS number
FROM service_unit
JOIN routers USING (router)
WHERE state IN ('ended', 'unaccounted')
GROUP BY key, service, state, recipient, reason
ORDER BY ALL;
