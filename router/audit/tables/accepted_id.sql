-- Each accepted message and its id, as two numbers. brought: the router that brought it, if its log is given too and it
-- did not sign the message itself. is_copy: a service of the router sends the message on to another. fact: a hash of
-- what belongs to the id whoever writes it down; size: as received.
CREATE TABLE accepted_id AS
SELECT line, router, t, is_within, brought, is_copy, i,
    CASE WHEN ttls IS NULL THEN fact ELSE hash(ttls[i + 1], expiries[i + 1], sender) END AS fact,
    coalesce(sizes[i + 1], size) AS size, id_low(ids, i) AS low, id_high(ids, i) AS high
FROM (
    SELECT *, hash(ttl_s, expiry, sender) AS fact, unnest(range(n))::INTEGER AS i
    FROM (
        SELECT line.line, line.router, t, is_asked(t) AS is_within, n, ids, ttl_s, expiry, ttls, expiries, sizes,
            bytes // n AS size, hash(kind = 'unicast', signer, destination) AS sender,
            CASE WHEN signer IS DISTINCT FROM peer THEN neighbour.router END AS brought,
            coalesce(kind = 'copy', false) AS is_copy
        FROM accepted_line line LEFT JOIN routers neighbour ON neighbour.key = line.peer
    )
);
