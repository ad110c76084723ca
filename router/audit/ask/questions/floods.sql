-- Who had the most turned away at the door? handed: by the sender's own log; not handed: what that whole log contradicts.
-- limit: number = 20; how many rows to return
WITH turned AS (
    SELECT router, coalesce(peer, prefix) AS sender, event, reason, CAST(sum(count) AS BIGINT) AS messages
    FROM abuse_hour
    GROUP BY router, coalesce(peer, prefix), event, reason
),
written AS (
    SELECT router AS sender, neighbour AS router, CAST(sum(sent) AS BIGINT) AS handed
    FROM link_hour
    GROUP BY router, neighbour
),
contradicted AS (
    SELECT router, peer AS sender, CAST(sum(count) AS BIGINT) AS not_handed
    FROM claims
    WHERE claim = 'not-handed'
    GROUP BY router, peer
)
SELECT turned.router, turned.sender, event, reason, messages, handed, not_handed
FROM turned
LEFT JOIN written ON written.router = turned.router AND written.sender = turned.sender
LEFT JOIN contradicted ON contradicted.router = turned.router AND contradicted.sender = turned.sender
ORDER BY messages DESC, turned.router, turned.sender NULLS LAST, event, reason NULLS LAST
LIMIT $limit
