SELECT router, minute // getvariable('step') * getvariable('step') AS "window", event, sum(changes)::BIGINT AS count
FROM route_change
WHERE "window" BETWEEN getvariable('first_window') AND getvariable('last_window')
GROUP BY ALL
ORDER BY ALL;
