-- Messages turned away before they were accepted, by neighbour, signer and reason; and what services and the router
-- count in notes called `…_refused`, by neighbour or network.
CREATE TABLE abuse_hour AS
SELECT
    routers.key AS router,
    least(t, getvariable('as_of_ns')) // 3_600_000_000_000 AS hour,
    CASE WHEN is_note THEN nullif(fields['router'], '') ELSE peer END AS peer,
    CASE WHEN is_note THEN nullif(fields['prefix'], '') END AS prefix,
    CASE WHEN NOT is_note THEN signer END AS signer,
    reason, event,
    sum(count)::BIGINT AS count, count(*) AS lines, coalesce(sum(bytes), 0)::BIGINT AS bytes
FROM (
    SELECT *, event LIKE '%!_refused' ESCAPE '!' AND fields['service'] IS NOT NULL AS is_note FROM events
    WHERE recipient IS NULL AND is_asked(t)
) JOIN routers USING (router)
WHERE is_note OR event IN ('refused', 'duplicate')
GROUP BY ALL;
