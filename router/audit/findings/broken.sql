SELECT routers.key AS router, keys.key AS recipient, id_text(ids, i) AS id
FROM handover
JOIN accepted_line USING (line)
JOIN routers ON routers.router = handover.router
JOIN keys ON keys.id = handover.recipient
WHERE custody = 'broken'
ORDER BY ALL
LIMIT 20;
