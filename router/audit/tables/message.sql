-- Every message, over all routers that accepted it: its units by state. path: which router brought it to which, as one
-- number (a hash of each pair, because the combined hash of two columns is linear in them); entries: at how many routers
-- none with a log here brought it, and entry_t: when the first of them accepted it.
CREATE TABLE each_message AS
SELECT
    id,
    count(*) AS routers,
    min(first_t) AS first_t,
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
    sum(broken)::BIGINT AS broken,
    sum(beyond)::BIGINT AS beyond,
    bit_xor(hash(router::BIGINT * 1048576 + coalesce(neighbour + 1, 0) + 1)) AS path,
    count(*) FILTER (neighbour IS NULL) AS entries,
    min(t) FILTER (neighbour IS NULL) AS entry_t
FROM stop_of_message
GROUP BY id;

CREATE VIEW message AS SELECT * EXCLUDE (path, entries, entry_t) FROM each_message;

-- What the table `journey` is made of.
CREATE VIEW stop AS
SELECT stop.id, router, neighbour, t, settled_ns, path, entries, entry_t,
    stop.owed, stop.delivered + stop.acked AS arrived,
    stop.unconfirmed + stop.refused + stop.expired + stop.dropped + stop.evicted AS ended,
    stop.unknown + stop.pending AS open, stop.unaccounted + stop.broken AS lost
FROM stop_of_message stop JOIN each_message USING (id);

CREATE VIEW log_key AS SELECT router AS number, key FROM routers;

CREATE TABLE way (path UBIGINT, router INTEGER, origin INTEGER, hops BIGINT, lower_ns BIGINT, upper_ns BIGINT);
