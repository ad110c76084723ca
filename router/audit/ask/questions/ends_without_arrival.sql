-- Where did messages end without arriving: expired, refused, dropped, evicted, or handed over unconfirmed?
-- limit: number = 20; how many rows to return
WITH sums AS (
    SELECT router, recipient,
        CAST(sum(expired) AS BIGINT) AS expired,
        CAST(sum(refused) AS BIGINT) AS refused,
        CAST(sum(dropped) AS BIGINT) AS dropped,
        CAST(sum(evicted) AS BIGINT) AS evicted,
        CAST(sum(unconfirmed) AS BIGINT) AS unconfirmed
    FROM delivery
    GROUP BY router, recipient
)
SELECT router, recipient, expired, refused, dropped, evicted, unconfirmed
FROM sums
WHERE expired + refused + dropped + evicted + unconfirmed > 0
ORDER BY expired + refused + dropped + evicted + unconfirmed DESC, router, recipient
LIMIT $limit
