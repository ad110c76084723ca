-- Where is a message? Each router that accepted it, in order: who brought it, by how many hops, and what became of it there.
-- id: id; the id of the message or its first digits
-- limit: number = 20; how many rows to return
SELECT router, neighbour, hops, t, arrived, ended, open, lost
FROM journey
WHERE id LIKE concat($id, '%')
ORDER BY id, hops NULLS LAST, t, router
LIMIT $limit
