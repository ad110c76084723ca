-- Between which routers did messages take more hops than others did, and how many? least, most: hops between the two.
-- limit: number = 20; how many rows to return
WITH between_two AS (
    SELECT origin, router, hops, min(hops) OVER (PARTITION BY origin, router) AS shortest, id
    FROM journey
    WHERE hops > 0
)
SELECT origin AS sender, router, count(*) AS messages,
    min(hops) AS least,
    max(hops) AS most,
    CAST(sum(CASE WHEN hops > shortest THEN 1 ELSE 0 END) AS BIGINT) AS detours,
    min(CASE WHEN hops > shortest THEN id END) AS example
FROM between_two
GROUP BY origin, router
HAVING max(hops) > min(hops)
ORDER BY detours DESC, sender, router
LIMIT $limit
