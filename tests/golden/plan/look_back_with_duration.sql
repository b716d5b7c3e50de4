-- trigger: interval
-- partition: none
-- result: ts TIMESTAMP, n BIGINT, mean DOUBLE
-- query
SELECT _twstart AS ts, count(*) AS n, avg(w) AS mean FROM nt WHERE _c0 >= _twend - 15s AND _c0 <= _twend AND v > 1
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`,
  `_agg`.`_a1` AS `mean`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(*) AS `_a0`,
    AVG(CAST(`_src0`.`w` AS DOUBLE)) AS `_a1`
  FROM `_src0`
  JOIN `_trig`
    ON `_trig`.`_tid` = `_src0`.`_tid`
  WHERE
    (
      `_src0`.`ts` >= (
        `_trig`.`_twend` - 15000
      )
      AND `_src0`.`ts` <= `_trig`.`_twend`
    )
    AND `_src0`.`v` > 1
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `mean`
FROM (
  SELECT
    COUNT(*) AS `_a0`,
    AVG(CAST(`_src0`.`w` AS DOUBLE)) AS `_a1`
  FROM `_src0`
  WHERE
    (
      `_src0`.`ts` >= (
        CAST({_twend} AS BIGINT) - 15000
      )
      AND `_src0`.`ts` <= CAST({_twend} AS BIGINT)
    )
    AND `_src0`.`v` > 1
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, count(m.ts), avg(m.w)
FROM _trig t LEFT JOIN nt m ON m.ts >= t._twend - 15000 AND m.ts <= t._twend AND m.v > 1
GROUP BY ALL
