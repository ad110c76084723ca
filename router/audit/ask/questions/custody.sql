-- Between which routers did messages vanish? followed: both logs agree; broken: the whole log of the taker lacks them.
-- limit: number = 20; how many rows to return
SELECT router, recipient AS neighbour, acked, followed, broken, unknown
FROM custody
ORDER BY broken DESC, unknown DESC, acked DESC, router, recipient
LIMIT $limit
