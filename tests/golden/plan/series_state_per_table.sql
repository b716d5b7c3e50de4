-- trigger: interval
-- partition: none
-- result: tbname VARCHAR(270), ts TIMESTAMP, n BIGINT, secs BIGINT
-- query
SELECT tbname, ts, statecount(v, 'GT', 5) AS n, stateduration(v, 'GT', 5, 1s) AS secs FROM meters WHERE ts >= _twstart AND ts < _twend PARTITION BY tbname
-- set
SELECT
  `_ser`.`_tid` AS `_tid`,
  `_ser`.`_c0` AS `tbname`,
  `_ser`.`_c1` AS `ts`,
  CAST(CASE
    WHEN (
      `_ser`.`_c2` > 5
    )
    THEN `_ser`.`_c4`
    WHEN NOT (
      `_ser`.`_c2` > 5
    )
    THEN (
      -1
    )
  END AS BIGINT) AS `n`,
  CAST(CASE
    WHEN (
      `_ser`.`_c2` > 5
    )
    THEN (
      `_ser`.`_c1` - `_ser`.`_c5`
    ) DIV 1000
    WHEN NOT (
      `_ser`.`_c2` > 5
    )
    THEN (
      -1
    )
  END AS BIGINT) AS `secs`
FROM (
  SELECT
    `_ser`.`_tid` AS `_tid`,
    `_ser`.`_c0` AS `_c0`,
    `_ser`.`_c1` AS `_c1`,
    `_ser`.`_c2` AS `_c2`,
    `_ser`.`_c3` AS `_c3`,
    COUNT(CASE WHEN (
      `_ser`.`_c2` > 5
    ) THEN 1 END) OVER (
      PARTITION BY `_ser`.`_tid`, `_ser`.`_c0`, `_ser`.`_c3`
      ORDER BY `_ser`.`_c1`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `_c4`,
    MIN(CASE WHEN (
      `_ser`.`_c2` > 5
    ) THEN `_ser`.`_c1` END) OVER (
      PARTITION BY `_ser`.`_tid`, `_ser`.`_c0`, `_ser`.`_c3`
      ORDER BY `_ser`.`_c1`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `_c5`
  FROM (
    SELECT
      `_ser`.`_tid` AS `_tid`,
      `_ser`.`_c0` AS `_c0`,
      `_ser`.`_c1` AS `_c1`,
      `_ser`.`_c2` AS `_c2`,
      SUM(CASE WHEN NOT (
        `_ser`.`_c2` > 5
      ) THEN 1 ELSE 0 END) OVER (
        PARTITION BY `_ser`.`_tid`, `_ser`.`_c0`
        ORDER BY `_ser`.`_c1`
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ) AS `_c3`
    FROM (
      SELECT
        `_src0`.`_tid` AS `_tid`,
        `_src0`.`tbname` AS `_c0`,
        `_src0`.`ts` AS `_c1`,
        `_src0`.`v` AS `_c2`
      FROM `_src0`
      JOIN `_trig`
        ON `_trig`.`_tid` = `_src0`.`_tid`
      WHERE
        `_src0`.`ts` >= `_trig`.`_twstart` AND `_src0`.`ts` < `_trig`.`_twend`
    ) AS `_ser`
  ) AS `_ser`
) AS `_ser`
ORDER BY
  `_tid`,
  `_ser`.`_c0`,
  `_ser`.`_c1`
-- one
SELECT
  `_ser`.`_c0` AS `tbname`,
  `_ser`.`_c1` AS `ts`,
  CAST(CASE
    WHEN (
      `_ser`.`_c2` > 5
    )
    THEN `_ser`.`_c4`
    WHEN NOT (
      `_ser`.`_c2` > 5
    )
    THEN (
      -1
    )
  END AS BIGINT) AS `n`,
  CAST(CASE
    WHEN (
      `_ser`.`_c2` > 5
    )
    THEN (
      `_ser`.`_c1` - `_ser`.`_c5`
    ) DIV 1000
    WHEN NOT (
      `_ser`.`_c2` > 5
    )
    THEN (
      -1
    )
  END AS BIGINT) AS `secs`
FROM (
  SELECT
    `_ser`.`_c0` AS `_c0`,
    `_ser`.`_c1` AS `_c1`,
    `_ser`.`_c2` AS `_c2`,
    `_ser`.`_c3` AS `_c3`,
    COUNT(CASE WHEN (
      `_ser`.`_c2` > 5
    ) THEN 1 END) OVER (
      PARTITION BY `_ser`.`_c0`, `_ser`.`_c3`
      ORDER BY `_ser`.`_c1`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `_c4`,
    MIN(CASE WHEN (
      `_ser`.`_c2` > 5
    ) THEN `_ser`.`_c1` END) OVER (
      PARTITION BY `_ser`.`_c0`, `_ser`.`_c3`
      ORDER BY `_ser`.`_c1`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `_c5`
  FROM (
    SELECT
      `_ser`.`_c0` AS `_c0`,
      `_ser`.`_c1` AS `_c1`,
      `_ser`.`_c2` AS `_c2`,
      SUM(CASE WHEN NOT (
        `_ser`.`_c2` > 5
      ) THEN 1 ELSE 0 END) OVER (
        PARTITION BY `_ser`.`_c0`
        ORDER BY `_ser`.`_c1`
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ) AS `_c3`
    FROM (
      SELECT
        `_src0`.`tbname` AS `_c0`,
        `_src0`.`ts` AS `_c1`,
        `_src0`.`v` AS `_c2`
      FROM `_src0`
      WHERE
        `_src0`.`ts` >= CAST({_twstart} AS BIGINT)
        AND `_src0`.`ts` < CAST({_twend} AS BIGINT)
    ) AS `_ser`
  ) AS `_ser`
) AS `_ser`
ORDER BY
  `_ser`.`_c0`,
  `_ser`.`_c1`
-- oracle
WITH r AS (SELECT t._tid, m.tbname, m.ts, m.v FROM _trig t JOIN meters m ON m.ts >= t._twstart AND m.ts < t._twend)
SELECT a._tid, a.tbname, a.ts,
  CASE WHEN a.v > 5 THEN (SELECT count(*) FROM r b WHERE b._tid = a._tid AND b.tbname = a.tbname AND b.v > 5 AND b.ts <= a.ts
    AND NOT EXISTS (SELECT 1 FROM r c WHERE c._tid = a._tid AND c.tbname = a.tbname AND c.v <= 5 AND c.ts > b.ts AND c.ts < a.ts)) WHEN a.v <= 5 THEN -1 END,
  CASE WHEN a.v > 5 THEN (SELECT (a.ts - min(b.ts)) // 1000 FROM r b WHERE b._tid = a._tid AND b.tbname = a.tbname AND b.v > 5 AND b.ts <= a.ts
    AND NOT EXISTS (SELECT 1 FROM r c WHERE c._tid = a._tid AND c.tbname = a.tbname AND c.v <= 5 AND c.ts > b.ts AND c.ts < a.ts)) WHEN a.v <= 5 THEN -1 END
FROM r a
