-- What did routers sign that their own logs, or those of others, contradict?
-- limit: number = 20; how many rows to return
SELECT claim, router, peer AS neighbour, count, seq AS event, accepted_seq AS accepted, id
FROM claims
ORDER BY claim, router, neighbour NULLS LAST, seq NULLS LAST
LIMIT $limit
