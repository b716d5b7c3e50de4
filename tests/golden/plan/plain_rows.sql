-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, v INT, k BIGINT, rn BIGINT, v * 2 + 1 DOUBLE, v / 0 DOUBLE, tbname VARCHAR(270), site VARCHAR(16)
-- query
SELECT ts, v, 7 AS k, _twrownum AS rn, v * 2 + 1, v / 0, tbname, site FROM %%tbname WHERE ts >= _twstart AND ts < _twend AND v > 3
-- set
SELECT
  `_src0`.`_tid` AS `_tid`,
  `_src0`.`ts` AS `ts`,
  `_src0`.`v` AS `v`,
  CAST(7 AS BIGINT) AS `k`,
  `_trig`.`_twrownum` AS `rn`,
  CAST(CAST(`_src0`.`v` AS DOUBLE) * CAST(2 AS DOUBLE) + CAST(1 AS DOUBLE) AS DOUBLE) AS `v * 2 + 1`,
  CAST(CAST(`_src0`.`v` AS DOUBLE) / NULLIF(CAST(0 AS DOUBLE), 0) AS DOUBLE) AS `v / 0`,
  `_src0`.`tbname` AS `tbname`,
  `_src0`.`site` AS `site`
FROM `_src0`
JOIN `_trig`
  ON `_trig`.`_tid` = `_src0`.`_tid`
WHERE
  (
    `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
  )
  AND `_src0`.`v` > 3
ORDER BY
  `_tid`,
  `_src0`.`ts`
-- one
SELECT
  `_src0`.`ts` AS `ts`,
  `_src0`.`v` AS `v`,
  CAST(7 AS BIGINT) AS `k`,
  CAST({_twrownum} AS BIGINT) AS `rn`,
  CAST(CAST(`_src0`.`v` AS DOUBLE) * CAST(2 AS DOUBLE) + CAST(1 AS DOUBLE) AS DOUBLE) AS `v * 2 + 1`,
  CAST(CAST(`_src0`.`v` AS DOUBLE) / NULLIF(CAST(0 AS DOUBLE), 0) AS DOUBLE) AS `v / 0`,
  `_src0`.`tbname` AS `tbname`,
  `_src0`.`site` AS `site`
FROM `_src0`
WHERE
  (
    `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
    AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
  )
  AND `_src0`.`v` > 3
ORDER BY
  `_src0`.`ts`
-- oracle
SELECT t._tid, m.ts, m.v, 7, t._twrownum, (m.v * 2 + 1)::DOUBLE, NULL, m.tbname, m.site
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend AND m.v > 3
