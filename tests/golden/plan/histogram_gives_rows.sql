-- trigger: interval
-- partition: site
-- result: ts TIMESTAMP, bin VARCHAR(512)
-- query
SELECT _twstart AS ts, histogram(v, 'user_input', '[-5, 0, 10]', 0) AS bin FROM %%trows
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  CAST(ELEMENT_AT(`_agg`.`_a0`, CAST(`_win`.`n` + 1 AS INT)) AS STRING) AS `bin`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    ARRAY(
      (
        '{"lower_bin":-5, "upper_bin":0, "count":' || CAST(COUNT(CAST(`_src0`.`v` AS DOUBLE)) FILTER(WHERE
          CAST(`_src0`.`v` AS DOUBLE) > CAST('-5.0' AS DOUBLE)
          AND CAST(`_src0`.`v` AS DOUBLE) <= CAST('0.0' AS DOUBLE)) AS STRING) || '}'
      ),
      (
        '{"lower_bin":0, "upper_bin":10, "count":' || CAST(COUNT(CAST(`_src0`.`v` AS DOUBLE)) FILTER(WHERE
          CAST(`_src0`.`v` AS DOUBLE) > CAST('0.0' AS DOUBLE)
          AND CAST(`_src0`.`v` AS DOUBLE) <= CAST('10.0' AS DOUBLE)) AS STRING) || '}'
      )
    ) AS `_a0`,
    COUNT(*) AS `_a1`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
JOIN `_trig`
  ON `_trig`.`_tid` = `_agg`.`_tid`
CROSS JOIN VALUES
  (0),
  (1) AS `_win`(`n`)
WHERE
  `_agg`.`_a1` > 0
ORDER BY
  `_tid`,
  `_win`.`n`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  CAST(ELEMENT_AT(`_agg`.`_a0`, CAST(`_win`.`n` + 1 AS INT)) AS STRING) AS `bin`
FROM (
  SELECT
    ARRAY(
      (
        '{"lower_bin":-5, "upper_bin":0, "count":' || CAST(COUNT(CAST(`_src0`.`v` AS DOUBLE)) FILTER(WHERE
          CAST(`_src0`.`v` AS DOUBLE) > CAST('-5.0' AS DOUBLE)
          AND CAST(`_src0`.`v` AS DOUBLE) <= CAST('0.0' AS DOUBLE)) AS STRING) || '}'
      ),
      (
        '{"lower_bin":0, "upper_bin":10, "count":' || CAST(COUNT(CAST(`_src0`.`v` AS DOUBLE)) FILTER(WHERE
          CAST(`_src0`.`v` AS DOUBLE) > CAST('0.0' AS DOUBLE)
          AND CAST(`_src0`.`v` AS DOUBLE) <= CAST('10.0' AS DOUBLE)) AS STRING) || '}'
      )
    ) AS `_a0`,
    COUNT(*) AS `_a1`
  FROM `_src0`
) AS `_agg`
CROSS JOIN VALUES
  (0),
  (1) AS `_win`(`n`)
WHERE
  `_agg`.`_a1` > 0
ORDER BY
  `_win`.`n`
-- oracle
SELECT t._tid, t._twstart, format('{{"lower_bin":{}, "upper_bin":{}, "count":{}}}', b.low, b.high,
       count(m.v) FILTER (m.v > b.low AND m.v <= b.high))
FROM _trig t JOIN meters m ON m.site = t._g1 AND m.ts >= t._twstart AND m.ts < t._twend
CROSS JOIN (VALUES (-5, 0), (0, 10)) b(low, high)
GROUP BY t._tid, t._twstart, b.low, b.high
