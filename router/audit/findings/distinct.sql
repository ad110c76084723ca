SELECT messages, accepted_again FROM distinct_id;
