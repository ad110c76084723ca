SELECT key AS router, event, reason, recipient IS NULL AND event IN ('refused', 'duplicate') AS at_door,
    sum(count)::BIGINT AS count
FROM events JOIN routers USING (router)
WHERE reason IS NOT NULL AND (NOT at_door OR is_asked(t))
GROUP BY ALL
ORDER BY ALL;
