#!/usr/bin/env bash
# A first stream over curl: the average current of each meter and minute. Needs a running stack (make up).
set -euo pipefail

gateway=${MILLRACE_GATEWAY_URL:-http://127.0.0.1:6041}

sql() {
  curl --silent --show-error --fail-with-body --user root:taosdata --data-binary "$1" "$gateway/rest/sql"
  echo
}

sql "CREATE DATABASE IF NOT EXISTS power"
sql "CREATE STABLE power.meters (ts TIMESTAMP, amps DOUBLE) TAGS (site INT)"
sql "CREATE TABLE power.m1 USING power.meters TAGS (1)"
sql "CREATE STREAM power.per_minute INTERVAL(1m) SLIDING(1m) FROM power.meters PARTITION BY tbname
       INTO power.minutes
       AS SELECT _twstart AS ts, count(*) AS n, avg(amps) AS mean
          FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
sql "SHOW power.STREAMS"
sql "INSERT INTO power.m1 VALUES
       ('2026-01-01 00:00:10', 1.0) ('2026-01-01 00:00:40', 2.0) ('2026-01-01 00:01:05', 9.0)"

# The row of 00:01:05 closed the window of 00:00.
for _ in $(seq 60); do
  answer=$(sql "SELECT * FROM power.minutes")
  [[ $answer != *'"rows":0'* ]] && break
  sleep 0.5
done
echo "$answer"
sql "DROP DATABASE power"
