-- Messages that a router says a neighbour brought, of which that neighbour's log, as given, tells no acceptance. What
-- the neighbour signed itself it never accepted.
CREATE TABLE unsent AS
SELECT line, router, brought, i
FROM (
    SELECT * FROM accepted_id SEMI JOIN (SELECT * FROM message_id WHERE is_unsent) odd USING (low, high)
    WHERE brought IS NOT NULL AND is_within
) here
ANTI JOIN (SELECT router AS brought, low, high FROM accepted_id) there USING (brought, low, high);
