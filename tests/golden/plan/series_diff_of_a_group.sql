-- trigger: interval
-- partition: site
-- result: ts TIMESTAMP, tbname VARCHAR(270), d BIGINT, te TIMESTAMP
-- query
SELECT ts, tbname, diff(v, 2) AS d, _twend AS te FROM %%trows
-- set
SELECT
  `_ser`.`_tid` AS `_tid`,
  `_ser`.`_c0` AS `ts`,
  `_ser`.`_c1` AS `tbname`,
  CAST(CAST(`_ser`.`_c2` AS BIGINT) - CAST(`_ser`.`_c3` AS BIGINT) AS BIGINT) AS `d`,
  `_trig`.`_twend` AS `te`
FROM (
  SELECT
    `_ser`.`_tid` AS `_tid`,
    `_ser`.`_c0` AS `_c0`,
    `_ser`.`_c1` AS `_c1`,
    `_ser`.`_c2` AS `_c2`,
    LAST_VALUE(`_ser`.`_c2`) IGNORE NULLS OVER (
      PARTITION BY `_ser`.`_tid`
      ORDER BY `_ser`.`_c0`, `_ser`.`_c1`
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS `_c3`,
    ROW_NUMBER() OVER (PARTITION BY `_ser`.`_tid` ORDER BY `_ser`.`_c0`, `_ser`.`_c1`) AS `_c4`
  FROM (
    SELECT
      `_src0`.`_tid` AS `_tid`,
      `_src0`.`ts` AS `_c0`,
      `_src0`.`tbname` AS `_c1`,
      `_src0`.`v` AS `_c2`
    FROM `_src0`
  ) AS `_ser`
) AS `_ser`
JOIN `_trig`
  ON `_trig`.`_tid` = `_ser`.`_tid`
WHERE
  NOT (
    `_ser`.`_c4` = 1
  )
  AND (
    NOT (
      CAST(`_ser`.`_c2` AS BIGINT) - CAST(`_ser`.`_c3` AS BIGINT)
    ) IS NULL
  )
ORDER BY
  `_tid`,
  `_ser`.`_c0`,
  `_ser`.`_c1`
-- one
SELECT
  `_ser`.`_c0` AS `ts`,
  `_ser`.`_c1` AS `tbname`,
  CAST(CAST(`_ser`.`_c2` AS BIGINT) - CAST(`_ser`.`_c3` AS BIGINT) AS BIGINT) AS `d`,
  CAST({_twend} AS BIGINT) AS `te`
FROM (
  SELECT
    `_ser`.`_c0` AS `_c0`,
    `_ser`.`_c1` AS `_c1`,
    `_ser`.`_c2` AS `_c2`,
    LAST_VALUE(`_ser`.`_c2`) IGNORE NULLS OVER (
      ORDER BY `_ser`.`_c0`, `_ser`.`_c1`
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS `_c3`,
    ROW_NUMBER() OVER (ORDER BY `_ser`.`_c0`, `_ser`.`_c1`) AS `_c4`
  FROM (
    SELECT
      `_src0`.`ts` AS `_c0`,
      `_src0`.`tbname` AS `_c1`,
      `_src0`.`v` AS `_c2`
    FROM `_src0`
  ) AS `_ser`
) AS `_ser`
WHERE
  NOT (
    `_ser`.`_c4` = 1
  )
  AND (
    NOT (
      CAST(`_ser`.`_c2` AS BIGINT) - CAST(`_ser`.`_c3` AS BIGINT)
    ) IS NULL
  )
ORDER BY
  `_ser`.`_c0`,
  `_ser`.`_c1`
-- oracle
SELECT _tid, ts, tbname, d, _twend FROM (
  SELECT t._tid, t._twend, m.ts, m.tbname,
    m.v::BIGINT - LAST_VALUE(m.v IGNORE NULLS) OVER (PARTITION BY t._tid ORDER BY m.ts, m.tbname ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS d
  FROM _trig t JOIN meters m ON m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend)
WHERE d IS NOT NULL
