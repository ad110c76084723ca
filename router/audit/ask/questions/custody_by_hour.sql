-- When, and between which routers, did messages vanish? Each row is an hour of handovers that are not all followed.
-- limit: number = 20; how many rows to return
SELECT router, recipient AS neighbour, hour, acked, followed, broken, unknown
FROM custody_hour
WHERE broken + unknown > 0
ORDER BY broken DESC, unknown DESC, hour, router, recipient
LIMIT $limit
