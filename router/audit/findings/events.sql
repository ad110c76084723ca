SELECT key AS router, event, count(*) AS lines, coalesce(sum(count), 0)::BIGINT AS count
FROM events JOIN routers USING (router)
GROUP BY ALL
ORDER BY ALL;
