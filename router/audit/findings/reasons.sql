SELECT key AS router, event, reason, recipient IS NULL AND event IN ('refused', 'duplicate') AS at_door,
    sum(count)::BIGINT AS count
FROM events JOIN routers USING (router)
WHERE reason IS NOT NULL
GROUP BY ALL
ORDER BY ALL;
