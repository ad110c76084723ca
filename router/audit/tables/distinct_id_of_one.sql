-- Messages of one router: if no two of their ids have the same hash, no two are the same. Else there is more to compare.
CREATE TABLE distinct_id AS
SELECT count(DISTINCT hash(id_text(ids, i))) AS messages, count(*) - messages AS accepted_again
FROM (
    SELECT line.ids, unnest(range(line.n)) AS i
    FROM accepted_line line
    SEMI JOIN (SELECT * FROM accepted WHERE is_within) within USING (line)
);
