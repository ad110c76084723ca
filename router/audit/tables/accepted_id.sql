-- Each accepted message and its id, as two numbers. A view: it would be the largest table of all.
CREATE VIEW accepted_id AS
SELECT line, router, i, id_low(ids, i) AS low, id_high(ids, i) AS high
FROM (
    SELECT line.line, line.router, line.ids, unnest(range(line.n)) AS i
    FROM accepted_line line
    SEMI JOIN (SELECT * FROM accepted WHERE is_within) within USING (line)
);
