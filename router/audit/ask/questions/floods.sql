-- Who had the most turned away before it was accepted, and is it borne out? handed: what the sender's own log wrote there.
-- limit: number = 20; how many rows to return
WITH turned AS (
    SELECT router, coalesce(peer, prefix) AS sender, event, reason,
        CAST(sum(count) AS BIGINT) AS messages,
        min(hour) AS hour
    FROM abuse_hour
    GROUP BY router, coalesce(peer, prefix), event, reason
),
written AS (
    SELECT router AS sender, neighbour AS router, CAST(sum(sent) AS BIGINT) AS handed
    FROM link_hour
    GROUP BY router, neighbour
)
SELECT turned.router, turned.sender, event, reason, messages, handed, hour
FROM turned
LEFT JOIN written ON written.router = turned.router AND written.sender = turned.sender
ORDER BY messages DESC, turned.router, turned.sender NULLS LAST, event, reason NULLS LAST
LIMIT $limit
