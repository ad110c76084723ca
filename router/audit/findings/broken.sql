SELECT routers.key AS router, keys.key AS recipient, id_text(ids, i) AS id, seq
FROM accepted_line
JOIN (SELECT line, recipient, i FROM broken_handover) USING (line)
JOIN routers USING (router)
JOIN keys ON keys.id = recipient
ORDER BY ALL
LIMIT 20;
