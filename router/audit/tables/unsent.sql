-- Messages that a router says a neighbour brought and that the neighbour's log, as given, does not accept. A neighbour
-- never accepts messages that it signed itself.
CREATE TABLE unsent AS
SELECT line, router, brought, i
FROM (
    SELECT * FROM accepted_id SEMI JOIN (SELECT * FROM message_id WHERE is_unsent) odd USING (low, high)
    WHERE brought IS NOT NULL AND is_within
) here
ANTI JOIN (SELECT router AS brought, low, high FROM accepted_id) there USING (brought, low, high);
