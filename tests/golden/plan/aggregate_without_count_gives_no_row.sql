-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, max(v) INT, min(c0) FLOAT, spread(v) DOUBLE, stddev(v) DOUBLE
-- query
SELECT _twstart AS ts, max(v), min(c0), spread(v), stddev(v) FROM %%trows
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_agg`.`_a0` AS `max(v)`,
  `_agg`.`_a1` AS `min(c0)`,
  `_agg`.`_a2` AS `spread(v)`,
  `_agg`.`_a3` AS `stddev(v)`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    MAX(`_src0`.`v`) AS `_a0`,
    MIN(`_src0`.`c0`) AS `_a1`,
    MAX(CAST(`_src0`.`v` AS DOUBLE)) - MIN(CAST(`_src0`.`v` AS DOUBLE)) AS `_a2`,
    STDDEV_POP(CAST(`_src0`.`v` AS DOUBLE)) AS `_a3`,
    COUNT(*) AS `_a4`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
JOIN `_trig`
  ON `_trig`.`_tid` = `_agg`.`_tid`
WHERE
  `_agg`.`_a4` > 0
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `max(v)`,
  `_agg`.`_a1` AS `min(c0)`,
  `_agg`.`_a2` AS `spread(v)`,
  `_agg`.`_a3` AS `stddev(v)`
FROM (
  SELECT
    MAX(`_src0`.`v`) AS `_a0`,
    MIN(`_src0`.`c0`) AS `_a1`,
    MAX(CAST(`_src0`.`v` AS DOUBLE)) - MIN(CAST(`_src0`.`v` AS DOUBLE)) AS `_a2`,
    STDDEV_POP(CAST(`_src0`.`v` AS DOUBLE)) AS `_a3`,
    COUNT(*) AS `_a4`
  FROM `_src0`
) AS `_agg`
WHERE
  `_agg`.`_a4` > 0
-- oracle
SELECT t._tid, t._twstart, max(m.v), min(m.c0), (max(m.v) - min(m.v))::DOUBLE, stddev_pop(m.v)
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
GROUP BY ALL
