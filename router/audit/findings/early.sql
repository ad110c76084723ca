-- Messages that ended as expired before they were due, by router: their count, how many are certain because the log has
-- the longest life of a message there, and no hole before its acceptance, and the first. A life of less than `short_s` is no excuse, and makes nothing
-- certain. Deadlines count from a full second. A copy whose next router was
-- away waits for `copy_ns` at most.
WITH life AS (
    SELECT router, min(ttl_s) FILTER (ttl_s >= getvariable('short_s')) AS ttl_s,
        CASE WHEN min(ttl_s) >= getvariable('short_s') THEN min(seq) END AS config_seq
    FROM (SELECT router, seq, number_of_text(fields['ttl_s_max']) AS ttl_s FROM events WHERE event = 'config')
    WHERE ttl_s >= 0
    GROUP BY router
),
ended AS (
    SELECT line, router, recipient, t AS expired_t, is_away, start, stop
    FROM piece
    SEMI JOIN owed USING (line, recipient)
    WHERE event = 'expired' AND start < stop
),
candidate AS (
    SELECT line, ended.router, ended.recipient, expired_t, start, stop, seq, parcel,
        seq > config_seq AND seq < hole_seq AS is_sure, t AS accepted_t,
        least(
            t::HUGEINT + least(ttl_s, 4_294_967_295) * 1_000_000_000, 9_223_372_036_854_775_807,
            CASE WHEN is_away THEN t::HUGEINT + getvariable('copy_ns') END
        )::BIGINT AS most_ns
    FROM ended JOIN accepted USING (line) LEFT JOIN life ON life.router = ended.router
    JOIN routers ON routers.router = ended.router
    WHERE is_within AND expired_t < least(due_ns, most_ns) - 1_000_000_000
),
message AS (
    SELECT candidate.*, i,
        least(most_ns, CASE WHEN line.lives IS NULL THEN line.due_ns ELSE line.lives[i + 1] END) AS due_ns
    FROM (SELECT *, unnest(range(start, stop)) AS i FROM candidate) candidate
    JOIN accepted_line line USING (line)
),
early AS (
    SELECT router, count(*) AS count, count(*) FILTER (is_sure) AS sure, min(
        {'seq': seq, 'arrival': parcel + i, 'recipient': keys.key, 'expired_t': expired_t, 'due_ns': due_ns}
    ) AS first
    FROM message JOIN keys ON keys.id = recipient
    WHERE expired_t < due_ns - 1_000_000_000
    GROUP BY router
)
SELECT key AS router, count, sure, first.* FROM early JOIN routers USING (router) ORDER BY key;
