-- The first parcels with messages that have no end, each with its first such message.
WITH lost AS (
    SELECT line, router, parcel, recipient, signer, owed, unaccounted
    FROM accepted
    JOIN (SELECT line, recipient, owed, unaccounted FROM unit WHERE unaccounted > 0) USING (line)
    ORDER BY router, parcel, recipient
    LIMIT 20
),
messages AS (
    SELECT line, recipient, unnest(range(owed))::INTEGER AS i FROM lost
),
ends AS (
    SELECT line, recipient, block, is_whole,
        delivered | acked | unconfirmed | refused | expired | dropped | evicted | flying AS mask
    FROM block SEMI JOIN lost USING (line, recipient)
),
first_lost AS (
    SELECT messages.line, messages.recipient, min(i) AS i
    FROM messages
    LEFT JOIN ends
        ON ends.line = messages.line AND ends.recipient = messages.recipient AND is_of(i, block, is_whole)
    WHERE mask IS NULL OR NOT has(mask, i, is_whole)
    GROUP BY messages.line, messages.recipient
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
