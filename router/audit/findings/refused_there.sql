-- Messages that a neighbour is said to have refused after it had accepted them, by its own log, from this router: by the
-- bounds of both clocks, neither of which was set. If the end of its log is missing, they were refused before that: it may
-- have been restored in the missing part. By router and neighbour.
WITH steady AS (
    SELECT router FROM routers ANTI JOIN (SELECT router FROM change WHERE event = 'clock_step') stepped USING (router)
),
known AS (
    SELECT gone_there.*
    FROM gone_there
    JOIN apart USING (router, taker)
    SEMI JOIN steady USING (router)
    SEMI JOIN steady there ON there.router = gone_there.taker
    JOIN routers taker ON taker.router = gone_there.taker
    JOIN log_end ON log_end.router = gone_there.taker
    WHERE is_never AND lower_ns <= coalesce(upper_ns, lower_ns) AND there_t - lower_ns < gone_there.t
        AND (is_whole OR is_unbroken AND coalesce(gone_there.t + upper_ns < end_ns, FALSE))
)
SELECT 'refused-there' AS claim, routers.key AS router, takers.key AS peer, count(*) AS count,
    min({'seq': known.seq, 'accepted_seq': there_seq, 'id': id_text(ids, i)}) AS first
FROM (SELECT line, ids FROM accepted_line) texts
JOIN known USING (line)
JOIN routers ON routers.router = known.router
JOIN routers takers ON takers.router = known.taker
GROUP BY routers.key, takers.key
ORDER BY ALL;
