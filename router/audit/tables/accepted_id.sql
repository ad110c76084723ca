-- Each accepted message and its id, as two numbers. brought: the router that brought it, if its log is given too and it
-- did not sign the message itself. is_copy: a service of the router sends the message on to another.
CREATE TABLE accepted_id AS
SELECT line, router, t, is_within, brought, is_copy, i, id_low(ids, i) AS low, id_high(ids, i) AS high
FROM (
    SELECT line.line, line.router, t, is_asked(t) AS is_within, ids,
        CASE WHEN signer IS DISTINCT FROM peer THEN neighbour.router END AS brought,
        coalesce(kind = 'copy', false) AS is_copy, unnest(range(n))::INTEGER AS i
    FROM accepted_line line LEFT JOIN routers neighbour ON neighbour.key = line.peer
);
