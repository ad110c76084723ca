-- How many of the routers with logs does a message pass, and do messages that pass more of them arrive less often?
-- limit: number = 20; how many rows to return
SELECT routers, count(*) AS messages,
    CAST(sum(CASE WHEN delivered + acked = owed AND broken = 0 THEN 1 ELSE 0 END) AS BIGINT) AS complete,
    floor(
        CAST(sum(CASE WHEN delivered + acked = owed AND broken = 0 THEN 1 ELSE 0 END) AS DOUBLE) * 10000 / count(*)
    ) / 100 AS share_percent
FROM message
WHERE owed > 0
GROUP BY routers
ORDER BY routers
LIMIT $limit
