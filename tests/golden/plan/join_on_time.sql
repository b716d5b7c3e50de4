-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, av INT, bw DOUBLE
-- query
SELECT a.ts, a.v AS av, b.w AS bw FROM %%tbname a LEFT JOIN nt b ON a.ts = b.ts AND b.v > 1 WHERE a.ts >= _twstart AND a.ts < _twend
-- set
SELECT
  `_src0`.`_tid` AS `_tid`,
  `_src0`.`ts` AS `ts`,
  `_src0`.`v` AS `av`,
  `_src1`.`w` AS `bw`
FROM `_src0`
JOIN `_trig`
  ON `_trig`.`_tid` = `_src0`.`_tid`
LEFT JOIN `_src1`
  ON (
    `_src0`.`ts` = `_src1`.`ts` AND `_src1`.`v` > 1
  )
  AND `_src1`.`_tid` = `_src0`.`_tid`
WHERE
  `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
ORDER BY
  `_tid`,
  `_src0`.`ts`
-- one
SELECT
  `_src0`.`ts` AS `ts`,
  `_src0`.`v` AS `av`,
  `_src1`.`w` AS `bw`
FROM `_src0`
LEFT JOIN `_src1`
  ON `_src0`.`ts` = `_src1`.`ts` AND `_src1`.`v` > 1
WHERE
  `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
  AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
ORDER BY
  `_src0`.`ts`
-- oracle
SELECT t._tid, a.ts, a.v, b.w
FROM _trig t JOIN meters a ON a.tbname = t._tbname AND a.ts >= t._twstart AND a.ts < t._twend
LEFT JOIN nt b ON a.ts = b.ts AND b.v > 1
