-- The lines of each file and run: the first of all, and of those with a monotonic time the first and the last; and how far
-- the wall clock is ahead of the monotonic one, at least and at most.
CREATE TABLE stretch AS
SELECT router, boot, file, min(seq) AS seq,
    min(seq) FILTER (mono IS NOT NULL) AS first_seq, max(seq) FILTER (mono IS NOT NULL) AS last_seq,
    min_by(mono, seq) AS first_mono, max_by(mono, seq) AS last_mono, min(mono) AS min_mono, max(mono) AS max_mono,
    min(t - mono) AS min_apart_ns, max(t - mono) AS max_apart_ns
FROM events
GROUP BY router, boot, file;
