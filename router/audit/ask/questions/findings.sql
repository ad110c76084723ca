-- What did the audit find, the worst first? count: of what the text counts; neighbour: also a recipient, service or link.
-- level: level = info; the least level to show: bad, warning or info
-- limit: number = 20; how many rows to return
WITH ranked AS (
    SELECT *, CASE level WHEN 'bad' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END AS place
    FROM finding
)
SELECT level, finding, nullif(router, '') AS router, nullif(peer, '') AS neighbour, count, text
FROM ranked
WHERE place <= CASE $level WHEN 'bad' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END
ORDER BY place, finding, router NULLS FIRST, neighbour NULLS FIRST, text
LIMIT $limit
