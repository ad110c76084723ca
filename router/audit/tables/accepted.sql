-- Accepted lines: n messages with the arrival numbers parcel .. parcel + n - 1, unique by (router, parcel). An arrival
-- number is given once; a line that gives it again (our routers never do) counts as an event only.
CREATE TABLE repeated AS
SELECT e.rowid AS line
FROM events e
JOIN (
    SELECT router, parcel, min(seq) AS seq
    FROM events
    WHERE event = 'accepted'
    GROUP BY router, parcel
    HAVING count(*) > 1
) original ON e.router = original.router AND e.parcel = original.parcel
WHERE e.event = 'accepted' AND e.seq > original.seq;

-- `line` is the row of the line in `events`: one number that identifies the parcel.
CREATE VIEW accepted_line AS
SELECT line.*
FROM (
    SELECT rowid AS line, router, parcel, n::INTEGER AS n, ids, recipients,
        seq, t, mono, boot, kind, signer, destination, peer, due_ns, lives, ttl_s, bytes, sizes, expiry, ttls, expiries
    FROM events
    WHERE event = 'accepted' AND parcel IS NOT NULL AND n > 0
) line
ANTI JOIN repeated USING (line);

-- The beginning of the first hole that ends after a line.
CREATE TABLE hole AS
SELECT line.line, ahead.first_seq
FROM (SELECT line, router, seq FROM accepted_line SEMI JOIN holes_ahead USING (router)) line
ASOF JOIN holes_ahead ahead ON ahead.router = line.router AND line.seq < ahead.last_seq;

-- hole_first: the beginning of a hole of the log after the line. is_within: accepted in the audit's time span. is_over:
-- if its messages had ends, the log would hold them.
CREATE TABLE accepted AS
SELECT
    line.line, line.router, line.parcel, line.n, line.seq, line.t, minute_of(line.t) AS minute, line.mono,
    boots.id AS boot, line.kind, signers.id AS signer, destinations.id AS destination, peers.id AS peer,
    line.due_ns, line.bytes,
    hole.first_seq AS hole_first,
    NOT is_doubted AND greatest(line.due_ns, settled_ns) <= end_ns - getvariable('grace_ns') AS is_over,
    is_asked(line.t) AS is_within
FROM accepted_line line
JOIN log_end USING (router)
LEFT JOIN keys boots ON boots.key = line.boot
LEFT JOIN keys signers ON signers.key = line.signer
LEFT JOIN keys destinations ON destinations.key = line.destination
LEFT JOIN keys peers ON peers.key = line.peer
LEFT JOIN hole USING (line);
