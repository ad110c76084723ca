SELECT key AS router, count(*) AS lines, max(t) AS latest_t
FROM events JOIN routers USING (router)
WHERE t > getvariable('as_of_ns')
GROUP BY ALL
ORDER BY ALL;
