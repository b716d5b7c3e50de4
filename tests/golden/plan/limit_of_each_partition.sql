-- trigger: interval
-- partition: site
-- result: tbname VARCHAR(270), v INT, ts TIMESTAMP
-- query
SELECT tbname, v, ts FROM %%trows PARTITION BY tbname ORDER BY v DESC, ts LIMIT 2
-- set
SELECT
  `_numbered`.`_tid` AS `_tid`,
  `_numbered`.`tbname` AS `tbname`,
  `_numbered`.`v` AS `v`,
  `_numbered`.`ts` AS `ts`
FROM (
  SELECT
    `_all`.`_tid` AS `_tid`,
    `_all`.`tbname` AS `tbname`,
    `_all`.`v` AS `v`,
    `_all`.`ts` AS `ts`,
    ROW_NUMBER() OVER (PARTITION BY `_all`.`_tid`, `_all`.`_p#0` ORDER BY `_all`.`v` DESC, `_all`.`ts`) AS `_row`,
    DENSE_RANK() OVER (PARTITION BY `_all`.`_tid` ORDER BY `_all`.`_p#0`) AS `_part`,
    `_all`.`v` AS `_o#0`,
    `_all`.`ts` AS `_o#1`
  FROM (
    SELECT
      `_src0`.`_tid` AS `_tid`,
      `_src0`.`tbname` AS `tbname`,
      `_src0`.`v` AS `v`,
      `_src0`.`ts` AS `ts`,
      `_src0`.`tbname` AS `_p#0`
    FROM `_src0`
  ) AS `_all`
) AS `_numbered`
WHERE
  `_numbered`.`_row` <= 2
ORDER BY
  `_tid`,
  `_numbered`.`_o#0` DESC,
  `_numbered`.`_o#1`
-- one
SELECT
  `_numbered`.`tbname` AS `tbname`,
  `_numbered`.`v` AS `v`,
  `_numbered`.`ts` AS `ts`
FROM (
  SELECT
    `_all`.`tbname` AS `tbname`,
    `_all`.`v` AS `v`,
    `_all`.`ts` AS `ts`,
    ROW_NUMBER() OVER (PARTITION BY `_all`.`_p#0` ORDER BY `_all`.`v` DESC, `_all`.`ts`) AS `_row`,
    DENSE_RANK() OVER (ORDER BY `_all`.`_p#0`) AS `_part`,
    `_all`.`v` AS `_o#0`,
    `_all`.`ts` AS `_o#1`
  FROM (
    SELECT
      `_src0`.`tbname` AS `tbname`,
      `_src0`.`v` AS `v`,
      `_src0`.`ts` AS `ts`,
      `_src0`.`tbname` AS `_p#0`
    FROM `_src0`
  ) AS `_all`
) AS `_numbered`
WHERE
  `_numbered`.`_row` <= 2
ORDER BY
  `_numbered`.`_o#0` DESC,
  `_numbered`.`_o#1`
-- oracle
SELECT t._tid, m.tbname, m.v, m.ts
FROM _trig t JOIN meters m ON m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend
QUALIFY row_number() OVER (PARTITION BY t._tid, m.tbname ORDER BY m.v DESC NULLS LAST, m.ts) <= 2
