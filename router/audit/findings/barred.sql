-- Routers that took custody of messages and passed none on, as the pub/sub service of another router says (pubsub_barred):
-- how often it barred them, by how many proofs, and its first event about it.
SELECT routers.key AS router, fields['router'] AS peer, count(*) AS count,
    sum(coalesce(try_cast(fields['lost'] AS BIGINT), 0))::BIGINT AS lost,
    sum(coalesce(try_cast(fields['withheld'] AS BIGINT), 0))::BIGINT AS withheld,
    min(seq) AS seq
FROM events JOIN routers USING (router)
WHERE event = 'pubsub_barred' AND recipient IS NULL AND is_asked(t)
    AND fields['service'] IS NOT NULL AND fields['router'] <> ''
GROUP BY ALL
ORDER BY ALL;
