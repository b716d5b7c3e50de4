#!/usr/bin/env bash
# A first stream over curl: the average current of each meter and minute. Needs a running stack (make up).
# It makes a database of its own, first_stream, and drops it in the end.
set -euo pipefail

gateway=${MILLRACE_GATEWAY_URL:-http://127.0.0.1:6041}

sql() {
  local answer
  # everybody on the machine can read a command line: the password goes through a pipe
  answer=$(printf 'user = "%s:%s"\n' "${MILLRACE_USER:-root}" "${MILLRACE_PASSWORD:-taosdata}" |
    curl --silent --show-error --fail-with-body --config - --data-binary "$1" "$gateway/rest/sql")
  echo "$answer"
  [[ $answer == '{"code":0,'* ]]  # an error in the SQL is HTTP 200 too
}

sql "CREATE DATABASE first_stream"
sql "CREATE STABLE first_stream.meters (ts TIMESTAMP, amps DOUBLE) TAGS (site INT)"
sql "CREATE TABLE first_stream.m1 USING first_stream.meters TAGS (1)"
sql "CREATE STREAM first_stream.per_minute INTERVAL(1m) SLIDING(1m) FROM first_stream.meters PARTITION BY tbname
       INTO first_stream.minutes
       AS SELECT _twstart AS ts, count(*) AS n, avg(amps) AS mean
          FROM %%tbname WHERE ts >= _twstart AND ts < _twend"
sql "SHOW first_stream.STREAMS"
sql "INSERT INTO first_stream.m1 VALUES
       ('2026-01-01 00:00:10', 1.0) ('2026-01-01 00:00:40', 2.0) ('2026-01-01 00:01:05', 9.0)"

# The row of 00:01:05 closed the window of 00:00.
for _ in $(seq 60); do
  answer=$(sql "SELECT * FROM first_stream.minutes")
  [[ $answer != *'"rows":0'* ]] && break
  sleep 0.5
done
echo "$answer"
sql "DROP DATABASE first_stream"
