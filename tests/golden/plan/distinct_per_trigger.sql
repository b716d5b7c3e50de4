-- trigger: interval
-- partition: none
-- result: ts TIMESTAMP, site VARCHAR(16)
-- query
SELECT DISTINCT _twstart AS ts, site FROM meters WHERE ts >= _twstart AND ts < _twend
-- set
SELECT DISTINCT
  `_src0`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_src0`.`site` AS `site`
FROM `_src0`
JOIN `_trig`
  ON `_trig`.`_tid` = `_src0`.`_tid`
WHERE
  `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
-- one
SELECT DISTINCT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_src0`.`site` AS `site`
FROM `_src0`
WHERE
  `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
  AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
-- oracle
SELECT DISTINCT t._tid, t._twstart, m.site FROM _trig t JOIN meters m ON m.ts >= t._twstart AND m.ts < t._twend
