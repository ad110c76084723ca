-- The messages, and the acceptances that are not the first of that id at that router.
SELECT count(*) AS messages, coalesce(sum(times - routers), 0)::BIGINT AS accepted_again FROM message_id WHERE times > 0;
