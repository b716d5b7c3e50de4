-- trigger: interval
-- partition: site
-- result: ts TIMESTAMP, g VARCHAR(16), n BIGINT, s BIGINT
-- query
SELECT _twstart AS ts, %%1 AS g, count(*) AS n, sum(v) AS s FROM meters WHERE site = %%1 AND ts >= _twstart AND ts < _twend
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_trig`.`_g1` AS `g`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`,
  `_agg`.`_a1` AS `s`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
  JOIN `_trig`
    ON `_trig`.`_tid` = `_src0`.`_tid`
  WHERE
    (
      `_src0`.`site` = `_trig`.`_g1` AND `_src0`.`ts` >= `_trig`.`_twstart`
    )
    AND `_src0`.`ts` < `_trig`.`_twend`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  CAST({%%1} AS STRING) AS `g`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `s`
FROM (
  SELECT
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
  WHERE
    (
      `_src0`.`site` = CAST({%%1} AS STRING)
      AND `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
    )
    AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, t._g1, count(m.ts), sum(m.v)::BIGINT
FROM _trig t LEFT JOIN meters m ON m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend
GROUP BY ALL
