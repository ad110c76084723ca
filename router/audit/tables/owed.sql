-- The recipients each parcel is owed to: a unit is one of its messages and one of these.
CREATE TABLE owed AS
SELECT line, keys.id AS recipient
FROM (SELECT line, unnest(list_distinct(recipients)) AS key FROM accepted_line)
JOIN keys USING (key);
