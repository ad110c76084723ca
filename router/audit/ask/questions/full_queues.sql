-- Which queues were full, and when? refused: for a full queue; recipient -: of all recipients of a message, at the door.
-- percent: number = 80; the share of its limit from which on a queue that refused nothing is shown
-- limit: number = 20; how many rows to return
WITH reason AS (
    SELECT router, hour,
        CAST(sum(CASE WHEN at_door THEN count ELSE 0 END) AS BIGINT) AS door,
        CAST(sum(CASE WHEN at_door THEN 0 ELSE count END) AS BIGINT) AS later
    FROM reason_hour
    WHERE event = 'refused' AND reason IN ('queue-full-recipient', 'queue-full-group')
    GROUP BY router, hour
),
ended AS (
    SELECT router, recipient, CAST((minute - minute % 60) / 60 AS BIGINT) AS hour,
        CAST(sum(refused) AS BIGINT) AS refused
    FROM delivery
    WHERE refused > 0
    GROUP BY router, recipient, CAST((minute - minute % 60) / 60 AS BIGINT)
),
turned AS (
    SELECT ended.router, recipient, ended.hour, least(refused, later) AS refused
    FROM ended
    JOIN reason ON reason.router = ended.router AND reason.hour = ended.hour
),
told AS (
    SELECT router, recipient, CAST((minute - minute % 60) / 60 AS BIGINT) AS hour,
        max(greatest(open, coalesce(depth_max, 0))) AS longest
    FROM queue_minute
    GROUP BY router, recipient, CAST((minute - minute % 60) / 60 AS BIGINT)
),
seen AS (
    SELECT told.router, told.recipient, told.hour, coalesce(refused, 0) AS refused, longest, messages_max AS allowed
    FROM told
    JOIN queue_hour
        ON queue_hour.router = told.router AND queue_hour.recipient = told.recipient AND queue_hour.hour = told.hour
    LEFT JOIN turned ON turned.router = told.router AND turned.recipient = told.recipient AND turned.hour = told.hour
    UNION ALL
    SELECT router, CAST(NULL AS STRING), hour, door, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)
    FROM reason
    WHERE door > 0
)
SELECT router, recipient, hour, refused, longest, allowed,
    floor(CAST(longest AS DOUBLE) * 10000 / nullif(allowed, 0)) / 100 AS share_percent
FROM seen
WHERE refused > 0 OR CAST(longest AS DOUBLE) * 100 >= CAST(allowed AS DOUBLE) * $percent
ORDER BY refused DESC, share_percent DESC, router, coalesce(recipient, ''), hour
LIMIT $limit
