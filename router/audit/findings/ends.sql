SELECT key AS router, seq, end_ns AS t FROM log_end JOIN routers USING (router) ORDER BY key;
