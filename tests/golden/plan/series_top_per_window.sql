-- trigger: interval
-- partition: tbname
-- result: ws TIMESTAMP, ts TIMESTAMP, hi INT, s VARCHAR(16)
-- query
SELECT _wstart AS ws, ts, top(v, 1) AS hi, s FROM %%trows INTERVAL(5s)
-- set
SELECT
  `_ser`.`_tid` AS `_tid`,
  `_ser`.`_c0` AS `ws`,
  `_ser`.`_c1` AS `ts`,
  CAST(`_ser`.`_c2` AS INT) AS `hi`,
  `_ser`.`_c4` AS `s`
FROM (
  SELECT
    `_ser`.`_tid` AS `_tid`,
    `_ser`.`_c0` AS `_c0`,
    `_ser`.`_c1` AS `_c1`,
    `_ser`.`_c2` AS `_c2`,
    `_ser`.`_c4` AS `_c4`,
    ROW_NUMBER() OVER (PARTITION BY `_ser`.`_tid`, `_ser`.`_c0` ORDER BY `_ser`.`_c2` DESC, `_ser`.`_c1`) AS `_c3`
  FROM (
    SELECT
      `_src0`.`_tid` AS `_tid`,
      (
        `_src0`.`ts` - (
          (
            (
              `_src0`.`ts` % 5000
            ) + 5000
          ) % 5000
        )
      ) AS `_c0`,
      `_src0`.`ts` AS `_c1`,
      `_src0`.`v` AS `_c2`,
      `_src0`.`s` AS `_c4`
    FROM `_src0`
    WHERE
      NOT (
        `_src0`.`v`
      ) IS NULL
  ) AS `_ser`
) AS `_ser`
WHERE
  (
    `_ser`.`_c3` <= 1
  )
ORDER BY
  `_tid`,
  `_ser`.`_c0`,
  `_ser`.`_c1`
-- one
SELECT
  `_ser`.`_c0` AS `ws`,
  `_ser`.`_c1` AS `ts`,
  CAST(`_ser`.`_c2` AS INT) AS `hi`,
  `_ser`.`_c4` AS `s`
FROM (
  SELECT
    `_ser`.`_c0` AS `_c0`,
    `_ser`.`_c1` AS `_c1`,
    `_ser`.`_c2` AS `_c2`,
    `_ser`.`_c4` AS `_c4`,
    ROW_NUMBER() OVER (PARTITION BY `_ser`.`_c0` ORDER BY `_ser`.`_c2` DESC, `_ser`.`_c1`) AS `_c3`
  FROM (
    SELECT
      (
        `_src0`.`ts` - (
          (
            (
              `_src0`.`ts` % 5000
            ) + 5000
          ) % 5000
        )
      ) AS `_c0`,
      `_src0`.`ts` AS `_c1`,
      `_src0`.`v` AS `_c2`,
      `_src0`.`s` AS `_c4`
    FROM `_src0`
    WHERE
      NOT (
        `_src0`.`v`
      ) IS NULL
  ) AS `_ser`
) AS `_ser`
WHERE
  (
    `_ser`.`_c3` <= 1
  )
ORDER BY
  `_ser`.`_c0`,
  `_ser`.`_c1`
-- oracle
SELECT _tid, ws, ts, v, s FROM (
  SELECT t._tid, m.ts - m.ts % 5000 AS ws, m.ts, m.v, m.s,
    ROW_NUMBER() OVER (PARTITION BY t._tid, m.ts - m.ts % 5000 ORDER BY m.v DESC, m.ts) AS n
  FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend WHERE m.v IS NOT NULL)
WHERE n = 1
