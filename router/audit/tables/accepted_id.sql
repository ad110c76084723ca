-- Each accepted message and its id, as two numbers.
CREATE TABLE accepted_id AS
SELECT line, router, t, is_within, i, id_low(ids, i) AS low, id_high(ids, i) AS high
FROM (
    SELECT line, router, t, is_asked(t) AS is_within, ids, unnest(range(n))::INTEGER AS i FROM accepted_line
);
