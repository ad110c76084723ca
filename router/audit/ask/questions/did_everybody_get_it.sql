-- Did everybody get a message? One row for each id that begins so, over all routers that accepted it. open: not known yet.
-- id: id; the id of the message or its first digits
-- limit: number = 20; how many rows to return
SELECT id, first_t, routers, owed, delivered + acked AS arrived,
    refused + expired + dropped + evicted + unconfirmed AS ended,
    pending + unknown AS open, unaccounted + broken AS lost
FROM message
WHERE id LIKE concat($id, '%')
ORDER BY id
LIMIT $limit
