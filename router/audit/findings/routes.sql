SELECT router, minute // getvariable('step') * getvariable('step') AS "window", event, count(*) AS count
FROM route_change
GROUP BY ALL
ORDER BY ALL;
