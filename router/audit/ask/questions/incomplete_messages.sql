-- Which messages did not reach everybody to whom they were owed, the newest first?
-- limit: number = 20; how many rows to return
SELECT id, first_t, owed, delivered + acked AS arrived,
    refused + expired + dropped + evicted + unconfirmed AS ended,
    pending, unknown, unaccounted + broken AS lost
FROM message
WHERE delivered + acked < owed OR broken > 0
ORDER BY first_t DESC, id
LIMIT $limit
