-- trigger: interval
-- partition: site
-- result: ts TIMESTAMP, k INT, n BIGINT, hi DOUBLE
-- query
SELECT _twstart AS ts, k, count(*) AS n, max(v) + 1 AS hi FROM %%trows GROUP BY k HAVING n > 1 ORDER BY k
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_agg`.`_k0` AS `k`,
  `_agg`.`_a0` AS `n`,
  CAST((
    CAST(`_agg`.`_a1` AS BIGINT) + 1
  ) AS DOUBLE) AS `hi`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    `_src0`.`k` AS `_k0`,
    COUNT(*) AS `_a0`,
    MAX(`_src0`.`v`) AS `_a1`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`,
    `_src0`.`k`
) AS `_agg`
JOIN `_trig`
  ON `_trig`.`_tid` = `_agg`.`_tid`
WHERE
  `_agg`.`_a0` > 1
ORDER BY
  `_tid`,
  `k`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_k0` AS `k`,
  `_agg`.`_a0` AS `n`,
  CAST((
    CAST(`_agg`.`_a1` AS BIGINT) + 1
  ) AS DOUBLE) AS `hi`
FROM (
  SELECT
    `_src0`.`k` AS `_k0`,
    COUNT(*) AS `_a0`,
    MAX(`_src0`.`v`) AS `_a1`
  FROM `_src0`
  GROUP BY
    `_src0`.`k`
) AS `_agg`
WHERE
  `_agg`.`_a0` > 1
ORDER BY
  `k`
-- oracle
SELECT t._tid, t._twstart, m.k, count(*), (max(m.v) + 1)::DOUBLE
FROM _trig t JOIN meters m ON m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend
GROUP BY t._tid, t._twstart, m.k HAVING count(*) > 1
