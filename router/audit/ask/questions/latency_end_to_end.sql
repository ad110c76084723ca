-- How long did messages take from the first router to each other one, whatever the clocks say? settled: by all there.
-- limit: number = 20; how many rows to return
WITH timed AS (
    SELECT origin, router, least_ns, most_ns, most_ns + coalesce(settled_ns, 0) AS settled_ns
    FROM journey
    WHERE hops > 0 AND least_ns IS NOT NULL AND most_ns IS NOT NULL
),
ranked AS (
    SELECT origin, router, least_ns, most_ns, settled_ns,
        count(*) OVER (PARTITION BY origin, router) AS total,
        row_number() OVER (PARTITION BY origin, router ORDER BY least_ns) AS least_place,
        row_number() OVER (PARTITION BY origin, router ORDER BY most_ns) AS most_place,
        row_number() OVER (PARTITION BY origin, router ORDER BY settled_ns) AS settled_place
    FROM timed
)
SELECT origin AS sender, router, count(*) AS messages,
    min(CASE WHEN least_place * 100 >= total * 99 THEN least_ns END) AS p99_at_least_ns,
    min(CASE WHEN most_place * 100 >= total * 99 THEN most_ns END) AS p99_at_most_ns,
    min(CASE WHEN settled_place * 100 >= total * 99 THEN settled_ns END) AS p99_settled_ns
FROM ranked
GROUP BY origin, router
ORDER BY p99_at_most_ns DESC, sender, router
LIMIT $limit
