-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, n BIGINT, s BIGINT, avg(c0) DOUBLE
-- query
SELECT _twstart AS ts, count(*) AS n, sum(v) AS s, avg(c0) FROM %%tbname WHERE ts >= _twstart AND ts < _twend
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`,
  `_agg`.`_a1` AS `s`,
  `_agg`.`_a2` AS `avg(c0)`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`,
    AVG(CAST(`_src0`.`c0` AS DOUBLE)) AS `_a2`
  FROM `_src0`
  JOIN `_trig`
    ON `_trig`.`_tid` = `_src0`.`_tid`
  WHERE
    `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `s`,
  `_agg`.`_a2` AS `avg(c0)`
FROM (
  SELECT
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`,
    AVG(CAST(`_src0`.`c0` AS DOUBLE)) AS `_a2`
  FROM `_src0`
  WHERE
    `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
    AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, count(m.ts), sum(m.v)::BIGINT, avg(m.c0)
FROM _trig t LEFT JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
GROUP BY ALL
