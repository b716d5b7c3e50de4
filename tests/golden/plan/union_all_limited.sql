-- trigger: interval
-- partition: none
-- result: ts TIMESTAMP, n BIGINT
-- query
SELECT _twstart AS ts, count(*) AS n FROM nt WHERE ts < _twstart UNION ALL SELECT ts, v FROM nt WHERE ts >= _twstart AND ts < _twend ORDER BY 1 DESC LIMIT 4
-- set
SELECT
  `_tid`,
  `ts`,
  `n`
FROM (
  SELECT
    `_tid`,
    `ts`,
    `n`,
    ROW_NUMBER() OVER (PARTITION BY `_tid` ORDER BY `ts` DESC) AS `_row`
  FROM (
    SELECT
      `_trig`.`_tid` AS `_tid`,
      `_trig`.`_twstart` AS `ts`,
      COALESCE(`_agg`.`_a0`, 0) AS `n`
    FROM `_trig`
    LEFT JOIN (
      SELECT
        `_src0`.`_tid` AS `_tid`,
        COUNT(*) AS `_a0`
      FROM `_src0`
      JOIN `_trig`
        ON `_trig`.`_tid` = `_src0`.`_tid`
      WHERE
        `_src0`.`ts` < `_trig`.`_twstart`
      GROUP BY
        `_src0`.`_tid`
    ) AS `_agg`
      ON `_agg`.`_tid` = `_trig`.`_tid`
    UNION ALL
    SELECT
      `_src1`.`_tid` AS `_tid`,
      `_src1`.`ts` AS `ts`,
      CAST(`_src1`.`v` AS BIGINT) AS `n`
    FROM `_src1`
    JOIN `_trig`
      ON `_trig`.`_tid` = `_src1`.`_tid`
    WHERE
      `_src1`.`ts` >= `_trig`.`_twstart` AND `_src1`.`ts` < `_trig`.`_twend`
  ) AS `_all`
) AS `_numbered`
WHERE
  `_row` <= 4
ORDER BY
  `_tid`,
  `_row`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `n`
FROM (
  SELECT
    COUNT(*) AS `_a0`
  FROM `_src0`
  WHERE
    `_src0`.`ts` < CAST({_twstart} AS BIGINT)
) AS `_agg`
UNION ALL
SELECT
  `_src1`.`ts` AS `ts`,
  CAST(`_src1`.`v` AS BIGINT) AS `n`
FROM `_src1`
WHERE
  `_src1`.`ts` >= CAST({_twstart} AS BIGINT)
  AND `_src1`.`ts` < CAST({_twend} AS BIGINT)
ORDER BY
  `ts` DESC
LIMIT 4
-- oracle
SELECT t._tid, m.ts, m.n FROM _trig t, LATERAL (
  SELECT t._twstart AS ts, (SELECT count(*) FROM nt WHERE nt.ts < t._twstart) AS n
  UNION ALL SELECT ts, v FROM nt WHERE nt.ts > t._twstart AND nt.ts < t._twend
  ORDER BY 1 DESC LIMIT 4) m
