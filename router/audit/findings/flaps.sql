SELECT router, subject, sum(changes)::BIGINT AS changes
FROM route_change
WHERE subject IS NOT NULL AND event NOT IN ('join', 'leave')
GROUP BY ALL
ORDER BY changes DESC, router, subject
LIMIT 50;
