SELECT key AS router, last_seq AS seq, end_ns AS t FROM log_end JOIN routers USING (router) ORDER BY key;
