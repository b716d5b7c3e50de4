-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, word VARCHAR(16), mid BOOL, ab BOOL, known BIGINT, it BOOL, nb BOOL, abs(v) INT, upper(s) VARCHAR(16), concat(s, '-', cast(v as varchar(8))) VARCHAR(25)
-- query
SELECT ts, CASE WHEN v > 10 THEN 'hi' WHEN b THEN 'on' ELSE s END AS word, v BETWEEN 2 AND 5 AS mid, s IN ('a', 'b') AS ab, if(v IS NULL, -1, v) AS known, s LIKE 'it%' AS it, NOT b AS nb, abs(v), upper(s), concat(s, '-', cast(v AS VARCHAR(8))) FROM %%trows
-- set
SELECT
  `_src0`.`_tid` AS `_tid`,
  `_src0`.`ts` AS `ts`,
  CAST(CASE WHEN `_src0`.`v` > 10 THEN 'hi' WHEN `_src0`.`b` THEN 'on' ELSE `_src0`.`s` END AS STRING) AS `word`,
  CAST(`_src0`.`v` BETWEEN 2 AND 5 AS BOOLEAN) AS `mid`,
  CAST(`_src0`.`s` IN ('a', 'b') AS BOOLEAN) AS `ab`,
  CAST(IF(`_src0`.`v` IS NULL, (
    -1
  ), `_src0`.`v`) AS BIGINT) AS `known`,
  CAST(`_src0`.`s` LIKE 'it%' AS BOOLEAN) AS `it`,
  CAST(NOT `_src0`.`b` AS BOOLEAN) AS `nb`,
  CAST(ABS(`_src0`.`v`) AS INT) AS `abs(v)`,
  CAST(TRANSLATE(`_src0`.`s`, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ') AS STRING) AS `upper(s)`,
  CAST((
    `_src0`.`s` || '-' || SUBSTRING(CAST(`_src0`.`v` AS STRING), 1, 8)
  ) AS STRING) AS `concat(s, '-', cast(v as varchar(8)))`
FROM `_src0`
ORDER BY
  `_tid`,
  `_src0`.`ts`
-- one
SELECT
  `_src0`.`ts` AS `ts`,
  CAST(CASE WHEN `_src0`.`v` > 10 THEN 'hi' WHEN `_src0`.`b` THEN 'on' ELSE `_src0`.`s` END AS STRING) AS `word`,
  CAST(`_src0`.`v` BETWEEN 2 AND 5 AS BOOLEAN) AS `mid`,
  CAST(`_src0`.`s` IN ('a', 'b') AS BOOLEAN) AS `ab`,
  CAST(IF(`_src0`.`v` IS NULL, (
    -1
  ), `_src0`.`v`) AS BIGINT) AS `known`,
  CAST(`_src0`.`s` LIKE 'it%' AS BOOLEAN) AS `it`,
  CAST(NOT `_src0`.`b` AS BOOLEAN) AS `nb`,
  CAST(ABS(`_src0`.`v`) AS INT) AS `abs(v)`,
  CAST(TRANSLATE(`_src0`.`s`, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ') AS STRING) AS `upper(s)`,
  CAST((
    `_src0`.`s` || '-' || SUBSTRING(CAST(`_src0`.`v` AS STRING), 1, 8)
  ) AS STRING) AS `concat(s, '-', cast(v as varchar(8)))`
FROM `_src0`
ORDER BY
  `_src0`.`ts`
-- oracle
SELECT t._tid, m.ts, CASE WHEN v > 10 THEN 'hi' WHEN b THEN 'on' ELSE s END, v BETWEEN 2 AND 5, s IN ('a', 'b'), coalesce(v, -1), s LIKE 'it%', NOT b, abs(v), upper(s), s || '-' || v::VARCHAR
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
