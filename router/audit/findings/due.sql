SELECT routers.key AS router, keys.key AS recipient, min(due_ns) AS due_ns
FROM unit JOIN accepted USING (line) JOIN routers ON routers.router = unit.router JOIN keys ON keys.id = unit.recipient
WHERE pending > 0
GROUP BY ALL
ORDER BY ALL;
