SELECT key AS router, event, reason, sum(count)::BIGINT AS count
FROM events JOIN routers USING (router)
WHERE reason IS NOT NULL
GROUP BY ALL
ORDER BY ALL;
