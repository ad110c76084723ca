SELECT key AS router, hole_first, sum(unknown)::BIGINT AS unknown
FROM unit JOIN accepted USING (line) JOIN routers ON routers.router = unit.router
WHERE unknown > 0
GROUP BY ALL
ORDER BY ALL;
