-- Who brings the most messages, not counting routers whose logs the audit has? Messages without recipients do not count.
-- limit: number = 20; how many rows to return
WITH parcels AS (
    SELECT router, parcel, peer, max(owed) AS messages, count(*) AS recipients, sum(owed) AS owed
    FROM delivery
    WHERE peer IS NOT NULL AND peer NOT IN (SELECT router FROM log_coverage)
    GROUP BY router, parcel, peer
)
SELECT peer AS publisher, router, count(*) AS batches,
    CAST(sum(messages) AS BIGINT) AS messages,
    CAST(sum(owed) AS BIGINT) AS owed
FROM parcels
GROUP BY peer, router
ORDER BY messages DESC, publisher, router
LIMIT $limit
