-- trigger: interval
-- partition: none
-- result: ts TIMESTAMP, v INT, tbname VARCHAR(270)
-- query
SELECT ts, v, tbname FROM meters WHERE ts >= _twstart AND ts < _twend AND v IS NOT NULL ORDER BY v DESC, ts, tbname LIMIT 3 OFFSET 1
-- set
SELECT
  `_tid`,
  `ts`,
  `v`,
  `tbname`
FROM (
  SELECT
    `_tid`,
    `ts`,
    `v`,
    `tbname`,
    ROW_NUMBER() OVER (PARTITION BY `_tid` ORDER BY `v` DESC, `ts`, `tbname`) AS `_row`
  FROM (
    SELECT
      `_src0`.`_tid` AS `_tid`,
      `_src0`.`ts` AS `ts`,
      `_src0`.`v` AS `v`,
      `_src0`.`tbname` AS `tbname`
    FROM `_src0`
    JOIN `_trig`
      ON `_trig`.`_tid` = `_src0`.`_tid`
    WHERE
      (
        `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
      )
      AND NOT `_src0`.`v` IS NULL
  ) AS `_all`
) AS `_numbered`
WHERE
  `_row` > 1 AND `_row` <= 4
ORDER BY
  `_tid`,
  `_row`
-- one
SELECT
  `_src0`.`ts` AS `ts`,
  `_src0`.`v` AS `v`,
  `_src0`.`tbname` AS `tbname`
FROM `_src0`
WHERE
  (
    `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
    AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
  )
  AND NOT `_src0`.`v` IS NULL
ORDER BY
  `v` DESC,
  `ts`,
  `tbname`
LIMIT 3
OFFSET 1
-- oracle
SELECT t._tid, m.ts, m.v, m.tbname
FROM _trig t, LATERAL (
  SELECT ts, v, tbname FROM meters m WHERE m.ts >= t._twstart AND m.ts < t._twend AND v IS NOT NULL
  ORDER BY v DESC, ts, tbname LIMIT 3 OFFSET 1) m
