"""One audit by Spark, from files to tables to findings."""
