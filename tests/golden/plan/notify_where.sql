-- trigger: interval
-- partition: tbname
-- notify: total >= 10 AND n > 1
-- result: ts TIMESTAMP, n BIGINT, total BIGINT
-- query
SELECT _twstart AS ts, count(*) AS n, sum(v) AS total FROM %%trows
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`,
  `_agg`.`_a1` AS `total`,
  CAST(COALESCE(
    (
      (
        `_agg`.`_a1`
      ) >= 10 AND (
        COALESCE(`_agg`.`_a0`, 0)
      ) > 1
    ),
    FALSE
  ) AS BOOLEAN) AS `_notify`
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
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `total`,
  CAST(COALESCE((
    (
      `_agg`.`_a1`
    ) >= 10 AND (
      `_agg`.`_a0`
    ) > 1
  ), FALSE) AS BOOLEAN) AS `_notify`
FROM (
  SELECT
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, count(m.ts), sum(m.v)::BIGINT, coalesce(sum(m.v) >= 10 AND count(m.ts) > 1, false)
FROM _trig t LEFT JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
GROUP BY ALL
