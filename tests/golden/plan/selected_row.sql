-- trigger: interval
-- partition: site
-- result: ts TIMESTAMP, hi INT, s VARCHAR(16), te TIMESTAMP
-- query
SELECT ts, max(v) AS hi, s, _twend AS te FROM %%trows
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_agg`.`_a0` AS `ts`,
  `_agg`.`_a1` AS `hi`,
  `_agg`.`_a2` AS `s`,
  `_trig`.`_twend` AS `te`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    (
      MAX_BY(STRUCT(`_src0`.`ts` AS `v`), STRUCT(`_src0`.`v`, -`_src0`.`ts`)) FILTER(WHERE
        NOT `_src0`.`v` IS NULL)
    ).`v` AS `_a0`,
    MAX(`_src0`.`v`) AS `_a1`,
    (
      MAX_BY(STRUCT(`_src0`.`s` AS `v`), STRUCT(`_src0`.`v`, -`_src0`.`ts`)) FILTER(WHERE
        NOT `_src0`.`v` IS NULL)
    ).`v` AS `_a2`,
    COUNT(*) AS `_a3`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
JOIN `_trig`
  ON `_trig`.`_tid` = `_agg`.`_tid`
WHERE
  `_agg`.`_a3` > 0
-- one
SELECT
  `_agg`.`_a0` AS `ts`,
  `_agg`.`_a1` AS `hi`,
  `_agg`.`_a2` AS `s`,
  CAST({_twend} AS BIGINT) AS `te`
FROM (
  SELECT
    (
      MAX_BY(STRUCT(`_src0`.`ts` AS `v`), STRUCT(`_src0`.`v`, -`_src0`.`ts`)) FILTER(WHERE
        NOT `_src0`.`v` IS NULL)
    ).`v` AS `_a0`,
    MAX(`_src0`.`v`) AS `_a1`,
    (
      MAX_BY(STRUCT(`_src0`.`s` AS `v`), STRUCT(`_src0`.`v`, -`_src0`.`ts`)) FILTER(WHERE
        NOT `_src0`.`v` IS NULL)
    ).`v` AS `_a2`,
    COUNT(*) AS `_a3`
  FROM `_src0`
) AS `_agg`
WHERE
  `_agg`.`_a3` > 0
-- oracle
SELECT t._tid, m.ts, m.v, m.s, t._twend FROM _trig t, LATERAL (
  SELECT ts, v, s, tbname FROM meters m WHERE m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend AND v IS NOT NULL
  ORDER BY v DESC, ts LIMIT 1) m
UNION ALL SELECT t._tid, NULL, NULL, NULL, t._twend FROM _trig t
WHERE EXISTS (SELECT 1 FROM meters m WHERE m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend)
  AND NOT EXISTS (SELECT 1 FROM meters m WHERE m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend AND v IS NOT NULL)
