-- Where each router's events begin and end: the time as its clock had it.
CREATE TEMP TABLE log_end AS
SELECT
    router,
    arg_min(t, seq) AS start_ns,
    max(seq) AS seq,
    arg_max(t, seq) AS end_ns
FROM events
GROUP BY router;
