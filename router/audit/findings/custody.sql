SELECT * FROM custody ORDER BY router, recipient;
