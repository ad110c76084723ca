-- The beginning and the end of each router's events, by its own clock. run_seq: its last start. settled_ns: since then
-- its clock has not jumped and it was not started again; while is_doubted it lets nothing expire. first_step_seq,
-- last_step_seq: the first and the last time that it says that its clock jumped.
CREATE TABLE log_end AS
SELECT
    router,
    arg_min(t, seq) AS start_ns,
    max(seq) AS last_seq,
    arg_max(t, seq) AS end_ns,
    coalesce(max(seq) FILTER (event = 'start'), 0) AS run_seq,
    min(seq) FILTER (event = 'clock_step') AS first_step_seq,
    max(seq) FILTER (event = 'clock_step') AS last_step_seq,
    coalesce(arg_max(t, seq) FILTER (event IN ('start', 'clock_step')), 0) AS settled_ns,
    coalesce(
        arg_max(coalesce(fields['doubted'] = 'true', FALSE), seq) FILTER (event IN ('start', 'clock_step')), FALSE
    ) AS is_doubted
FROM events
GROUP BY router;

-- Links that are up where the log ends: a message written to one of these without an end is in flight, and in flight
-- nothing expires.
CREATE TABLE open_link AS
SELECT router, link
FROM (
    SELECT events.router, number_of_text(fields['link']) AS link,
        max(seq) FILTER (event = 'link_up') AS up_seq, max(seq) FILTER (event = 'link_down') AS down_seq
    FROM events JOIN log_end USING (router)
    WHERE event IN ('link_up', 'link_down') AND seq > run_seq
    GROUP BY ALL
)
WHERE link IS NOT NULL AND up_seq > coalesce(down_seq, 0);
