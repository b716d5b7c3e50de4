-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, te TIMESTAMP, d BIGINT, rn BIGINT, count(v) BIGINT, first(v) INT, last(v) INT, first(s) VARCHAR(16)
-- query
SELECT _twstart AS ts, _twend AS te, _twduration AS d, _twrownum AS rn, count(v), first(v), last(v), first(s) FROM %%trows
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_trig`.`_twend` AS `te`,
  `_trig`.`_twduration` AS `d`,
  `_trig`.`_twrownum` AS `rn`,
  COALESCE(`_agg`.`_a0`, 0) AS `count(v)`,
  `_agg`.`_a1` AS `first(v)`,
  `_agg`.`_a2` AS `last(v)`,
  `_agg`.`_a3` AS `first(s)`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(`_src0`.`v`) AS `_a0`,
    MIN_BY(`_src0`.`v`, `_src0`.`ts`) FILTER(WHERE
      NOT `_src0`.`v` IS NULL) AS `_a1`,
    MAX_BY(`_src0`.`v`, `_src0`.`ts`) FILTER(WHERE
      NOT `_src0`.`v` IS NULL) AS `_a2`,
    MIN_BY(`_src0`.`s`, `_src0`.`ts`) FILTER(WHERE
      NOT `_src0`.`s` IS NULL) AS `_a3`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  CAST({_twend} AS BIGINT) AS `te`,
  CAST({_twduration} AS BIGINT) AS `d`,
  CAST({_twrownum} AS BIGINT) AS `rn`,
  `_agg`.`_a0` AS `count(v)`,
  `_agg`.`_a1` AS `first(v)`,
  `_agg`.`_a2` AS `last(v)`,
  `_agg`.`_a3` AS `first(s)`
FROM (
  SELECT
    COUNT(`_src0`.`v`) AS `_a0`,
    MIN_BY(`_src0`.`v`, `_src0`.`ts`) FILTER(WHERE
      NOT `_src0`.`v` IS NULL) AS `_a1`,
    MAX_BY(`_src0`.`v`, `_src0`.`ts`) FILTER(WHERE
      NOT `_src0`.`v` IS NULL) AS `_a2`,
    MIN_BY(`_src0`.`s`, `_src0`.`ts`) FILTER(WHERE
      NOT `_src0`.`s` IS NULL) AS `_a3`
  FROM `_src0`
) AS `_agg`
-- oracle
SELECT t._tid, t._twstart, t._twend, t._twduration, t._twrownum, count(m.v),
       arg_min(m.v, m.ts) FILTER (m.v IS NOT NULL), arg_max(m.v, m.ts) FILTER (m.v IS NOT NULL),
       arg_min(m.s, m.ts) FILTER (m.s IS NOT NULL)
FROM _trig t LEFT JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
GROUP BY ALL
