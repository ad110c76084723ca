-- Which router brought the messages of a path to which: as one of its messages tells.
CREATE TABLE step AS
SELECT path, router, neighbour
FROM stop_of_message JOIN (SELECT path, min(id) AS id FROM each_message GROUP BY path) one USING (id);
