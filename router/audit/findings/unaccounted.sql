-- The first parcels with messages that have no end, and of each the first such message.
WITH lost AS (
    SELECT line, router, parcel, recipient, signer, owed, unaccounted
    FROM accepted
    JOIN (SELECT line, recipient, owed, unaccounted FROM unit WHERE unaccounted > 0) USING (line)
    ORDER BY router, parcel, recipient
    LIMIT 20
),
messages AS (
    SELECT line, recipient, i, i >> 5 AS block, (i & 31)::INTEGER AS bit
    FROM (SELECT line, recipient, unnest(range(owed)) AS i FROM lost)
),
ends AS (
    SELECT line, recipient, block,
        delivered | acked | unconfirmed | refused | expired | dropped | evicted | flying AS mask
    FROM block SEMI JOIN lost USING (line, recipient)
),
first_lost AS (
    SELECT line, recipient, min(i) AS i
    FROM messages LEFT JOIN ends USING (line, recipient, block)
    WHERE mask IS NULL OR (mask >> bit) & 1 = 0
    GROUP BY line, recipient
)
SELECT routers.key AS router, lost.parcel, recipients.key AS recipient, signers.key AS signer, unaccounted AS count,
    id_text(line.ids, first_lost.i) AS id
FROM accepted_line line
JOIN first_lost USING (line)
JOIN lost USING (line, recipient)
JOIN routers ON routers.router = lost.router
JOIN keys recipients ON recipients.id = lost.recipient
LEFT JOIN keys signers ON signers.id = lost.signer
ORDER BY routers.key, lost.parcel, recipients.key;
