-- trigger: session
-- partition: none
-- result: ts TIMESTAMP, n BIGINT, w DOUBLE
-- query
SELECT _twstart AS ts, count(*) AS n, last_row(w) AS w FROM nt WHERE _c0 >= _twstart AND _c0 <= _twend
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`,
  `_agg`.`_a1` AS `w`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(*) AS `_a0`,
    (
      MAX_BY(STRUCT(`_src0`.`w` AS `v`), `_src0`.`ts`)
    ).`v` AS `_a1`
  FROM `_src0`
  JOIN `_trig`
    ON `_trig`.`_tid` = `_src0`.`_tid`
  WHERE
    `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` <= `_trig`.`_twend`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `w`
FROM (
  SELECT
    COUNT(*) AS `_a0`,
    (
      MAX_BY(STRUCT(`_src0`.`w` AS `v`), `_src0`.`ts`)
    ).`v` AS `_a1`
  FROM `_src0`
  WHERE
    `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
    AND `_src0`.`ts` <= CAST({_twend} AS BIGINT)
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, count(m.ts), (SELECT w FROM nt x WHERE x.ts BETWEEN t._twstart AND t._twend ORDER BY ts DESC LIMIT 1)
FROM _trig t LEFT JOIN nt m ON m.ts BETWEEN t._twstart AND t._twend
GROUP BY ALL
