SELECT key AS router, arg_max(fields, seq) AS fields
FROM events JOIN routers USING (router)
WHERE event = 'config'
GROUP BY key
ORDER BY key;
