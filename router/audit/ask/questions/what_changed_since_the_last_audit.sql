-- What is unlike in this audit and the one before it in the same directory? Without one before, all figures of this one.
-- limit: number = 50; how many rows to return
WITH numbered AS (
    SELECT *, row_number() OVER (ORDER BY written_ns DESC) AS age FROM audit_history
),
figure AS (
    SELECT 1 AS place, 'bad findings' AS figure, age, bad AS value FROM numbered
    UNION ALL SELECT 2, 'warnings', age, warnings FROM numbered
    UNION ALL SELECT 3, 'logs', age, logs FROM numbered
    UNION ALL SELECT 4, 'whole logs', age, whole_logs FROM numbered
    UNION ALL SELECT 5, 'holes in logs', age, holes FROM numbered
    UNION ALL SELECT 6, 'doubted files', age, doubted_files FROM numbered
    UNION ALL SELECT 7, 'events', age, events FROM numbered
    UNION ALL SELECT 8, 'messages', age, messages FROM numbered
    UNION ALL SELECT 9, 'owed', age, owed FROM numbered
    UNION ALL SELECT 10, 'delivered', age, delivered FROM numbered
    UNION ALL SELECT 11, 'acked', age, acked FROM numbered
    UNION ALL SELECT 12, 'unconfirmed', age, unconfirmed FROM numbered
    UNION ALL SELECT 13, 'refused', age, refused FROM numbered
    UNION ALL SELECT 14, 'expired', age, expired FROM numbered
    UNION ALL SELECT 15, 'dropped', age, dropped FROM numbered
    UNION ALL SELECT 16, 'evicted', age, evicted FROM numbered
    UNION ALL SELECT 17, 'unknown', age, unknown FROM numbered
    UNION ALL SELECT 18, 'pending', age, pending FROM numbered
    UNION ALL SELECT 19, 'unaccounted', age, unaccounted FROM numbered
    UNION ALL SELECT 20, 'broken handovers', age, broken FROM numbered
    UNION ALL SELECT 21, 'claims', age, claims FROM numbered
    UNION ALL SELECT 22, 'duplicates', age, duplicates FROM numbered
    UNION ALL SELECT 23, 'redelivered', age, redelivered FROM numbered
    UNION ALL SELECT 24, 'contradictions', age, contradictions FROM numbered
    UNION ALL SELECT 25, 'strays', age, strays FROM numbered
    UNION ALL SELECT 26, 'full queues', age, full_queues FROM numbered
    UNION ALL SELECT 27, 'delivered p99 in microseconds', age, CAST(floor(delivered_p99_ns / 1000) AS BIGINT) FROM numbered
    UNION ALL SELECT 28, 'acked p99 in microseconds', age, CAST(floor(acked_p99_ns / 1000) AS BIGINT) FROM numbered
),
compared AS (
    SELECT place, figure,
        max(CASE WHEN age = 2 THEN value END) AS before,
        max(CASE WHEN age = 1 THEN value END) AS now
    FROM figure
    WHERE age <= 2
    GROUP BY place, figure
)
SELECT figure, before, now, now - before AS change
FROM compared
WHERE coalesce(before, -1) <> coalesce(now, -1)
ORDER BY place
LIMIT $limit
