-- Which audit wrote these tables: by which engine, as of when, and with which verdict?
-- limit: number = 20; how many rows to return
SELECT engine, as_of, verdict
FROM audit_run
ORDER BY as_of DESC
LIMIT $limit
