-- The 50 queues that were longest at the end of a window.
WITH windows AS (
    SELECT router, recipient,
        greatest(getvariable('first_window'), least(
            getvariable('last_window'), minute // getvariable('step') * getvariable('step')
        )) AS "window",
        sum(added)::BIGINT AS added, sum(ended)::BIGINT AS ended, arg_max(open, minute) AS open,
        max(depth_max) AS depth_max
    FROM queue
    GROUP BY ALL
),
longest AS (
    SELECT router, recipient
    FROM windows
    GROUP BY router, recipient
    ORDER BY max(open) DESC, router, recipient
    LIMIT 50
)
SELECT routers.key AS router, keys.key AS recipient, "window", added, ended, open, depth_max
FROM windows
SEMI JOIN longest USING (router, recipient)
JOIN routers USING (router)
JOIN keys ON keys.id = windows.recipient
ORDER BY ALL;
