-- Each minute of a router's accepted lines: the states of its units, and whether they are final.
CREATE TABLE audit_window AS
SELECT
    key AS router, unit.minute,
    sum(owed)::BIGINT AS owed,
    sum(delivered)::BIGINT AS delivered,
    sum(acked)::BIGINT AS acked,
    sum(unconfirmed)::BIGINT AS unconfirmed,
    sum(refused)::BIGINT AS refused,
    sum(expired)::BIGINT AS expired,
    sum(dropped)::BIGINT AS dropped,
    sum(evicted)::BIGINT AS evicted,
    sum(unknown)::BIGINT AS unknown,
    sum(pending)::BIGINT AS pending,
    sum(unaccounted)::BIGINT AS unaccounted,
    is_whole AND end_ns >= max(due_ns) + getvariable('grace_ns') AS judged
FROM each_unit unit
JOIN accepted USING (line)
JOIN routers ON routers.router = unit.router
JOIN log_end ON log_end.router = unit.router
GROUP BY key, unit.minute, is_whole, end_ns;
