-- Each recipient's queue by the minute: messages added, ended, and open at the minute's end: none where a clock that was
-- set lets ends lie before the acceptance.
CREATE TABLE queue AS
WITH changes AS (
    SELECT router, recipient, minute, n AS added, 0 AS ended, NULL AS depth
    FROM owed JOIN accepted USING (line)
    UNION ALL
    SELECT router, recipient, minute, 0, CASE WHEN event IN ('forwarded', 'deferred') THEN 0 ELSE stop - start END, depth
    FROM piece
),
sums AS (
    SELECT router, recipient, minute,
        sum(added)::BIGINT AS added, sum(ended)::BIGINT AS ended, max(depth) AS depth_max
    FROM changes
    GROUP BY router, recipient, minute
)
SELECT router, recipient, minute, added, ended,
    greatest(0, sum(added - ended) OVER (
        PARTITION BY router, recipient ORDER BY minute ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ))::BIGINT AS open,
    depth_max
FROM sums;

CREATE VIEW queue_minute AS
SELECT queue.* REPLACE (routers.key AS router, keys.key AS recipient)
FROM queue JOIN routers USING (router) JOIN keys ON keys.id = queue.recipient;
