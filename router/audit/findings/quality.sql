SELECT 'unknown event word' AS check, key AS router, count(*) AS count
FROM events JOIN routers USING (router)
WHERE NOT list_contains(getvariable('known_events'), event) AND fields['service'] IS NULL
GROUP BY key
UNION ALL
SELECT CASE WHEN wait_ns = getvariable('over_step_ns') THEN 'wait over a clock step' ELSE 'negative wait' END, key,
    sum(count)::BIGINT
FROM piece JOIN routers USING (router)
WHERE wait_ns < 0
GROUP BY ALL
UNION ALL
SELECT 'time from the future', key, count(*)
FROM events JOIN routers USING (router)
WHERE t > getvariable('as_of_ns')
GROUP BY key
ORDER BY ALL;
