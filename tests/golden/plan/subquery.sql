-- trigger: interval
-- partition: none
-- result: ts TIMESTAMP, hi BIGINT, n BIGINT
-- query
SELECT _twstart AS ts, max(total) AS hi, count(*) AS n FROM (SELECT tbname, sum(v) AS total FROM meters WHERE ts >= _twstart AND ts < _twend PARTITION BY tbname)
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_agg`.`_a0` AS `hi`,
  COALESCE(`_agg`.`_a1`, 0) AS `n`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_sub0`.`_tid` AS `_tid`,
    MAX(`_sub0`.`total`) AS `_a0`,
    COUNT(*) AS `_a1`
  FROM (
    SELECT
      `_agg`.`_tid` AS `_tid`,
      `_agg`.`_k0` AS `tbname`,
      `_agg`.`_a0` AS `total`
    FROM (
      SELECT
        `_src0`.`_tid` AS `_tid`,
        `_src0`.`tbname` AS `_k0`,
        CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a0`
      FROM `_src0`
      JOIN `_trig`
        ON `_trig`.`_tid` = `_src0`.`_tid`
      WHERE
        `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
      GROUP BY
        `_src0`.`_tid`,
        `_src0`.`tbname`
    ) AS `_agg`
  ) AS `_sub0`
  GROUP BY
    `_sub0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `hi`,
  `_agg`.`_a1` AS `n`
FROM (
  SELECT
    MAX(`_sub0`.`total`) AS `_a0`,
    COUNT(*) AS `_a1`
  FROM (
    SELECT
      `_agg`.`_k0` AS `tbname`,
      `_agg`.`_a0` AS `total`
    FROM (
      SELECT
        `_src0`.`tbname` AS `_k0`,
        CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a0`
      FROM `_src0`
      WHERE
        `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
        AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
      GROUP BY
        `_src0`.`tbname`
    ) AS `_agg`
  ) AS `_sub0`
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, (SELECT max(s) FROM (SELECT sum(v)::BIGINT AS s FROM meters m WHERE m.ts >= t._twstart AND m.ts < t._twend GROUP BY tbname)),
       (SELECT count(DISTINCT tbname) FROM meters m WHERE m.ts >= t._twstart AND m.ts < t._twend)
FROM _trig t
