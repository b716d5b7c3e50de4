"""calc-svc answers any SQL query for a moment: table store, planner, Spark SQL, one job for many triggers."""
