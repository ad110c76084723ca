-- Messages still pending a day or more after their due time, where the log goes on that long.
SELECT routers.key AS router, sum(pending)::BIGINT AS count, count(DISTINCT recipient) AS recipients,
    any_value(is_doubted) AS is_doubted,
    first(keys.key ORDER BY due_ns, seq, keys.key) AS recipient,
    first(seq ORDER BY due_ns, seq, keys.key) AS seq,
    first(parcel ORDER BY due_ns, seq, keys.key) AS parcel,
    min(due_ns) AS due_ns
FROM unit JOIN accepted USING (line) JOIN log_end ON log_end.router = unit.router
    JOIN routers ON routers.router = unit.router JOIN keys ON keys.id = unit.recipient
WHERE pending > 0 AND due_ns <= least(end_ns, getvariable('as_of_ns')) - getvariable('overdue_ns')
GROUP BY ALL
ORDER BY ALL;
