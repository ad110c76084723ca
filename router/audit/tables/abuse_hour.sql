-- Messages turned away before they were accepted, by neighbour, signer and reason.
CREATE TABLE abuse_hour AS
SELECT
    routers.key AS router,
    least(t, getvariable('as_of_ns')) // 3_600_000_000_000 AS hour,
    peer, signer, reason, event,
    sum(count)::BIGINT AS count, count(*) AS lines
FROM events JOIN routers USING (router)
WHERE recipient IS NULL AND event IN ('refused', 'duplicate')
    AND is_asked(t)
GROUP BY ALL;
