SELECT event, minute // getvariable('step') * getvariable('step') AS "window", bucket,
    sum(count)::BIGINT AS count, max(max_ns) AS max_ns
FROM wait
GROUP BY ALL
ORDER BY ALL;
