-- What routers find wrong with themselves: of each kind and recipient the last line, if it is not over.
SELECT key AS router, fields['alarm'] AS alarm, fields['peer'] AS peer, max(seq) AS seq, arg_max(fields, seq) AS fields
FROM events JOIN routers USING (router)
WHERE event = 'alarm'
GROUP BY ALL
HAVING arg_max(fields, seq)['state'] = 'raised'
ORDER BY ALL;
