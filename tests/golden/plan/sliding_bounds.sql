-- trigger: sliding
-- partition: tbname
-- result: ts TIMESTAMP, n BIGINT, total BIGINT
-- query
SELECT _tcurrent_ts AS ts, count(*) AS n, sum(v) AS total FROM %%trows
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_tcurrent_ts` AS `ts`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`,
  `_agg`.`_a1` AS `total`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_tcurrent_ts} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `total`
FROM (
  SELECT
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
) AS `_agg`
-- oracle
SELECT t._tid, t._tcurrent_ts, count(m.ts), sum(m.v)::BIGINT
FROM _trig t LEFT JOIN meters m ON m.tbname = t._tbname AND m.ts > t._tprev_ts AND m.ts <= t._tcurrent_ts
GROUP BY ALL
