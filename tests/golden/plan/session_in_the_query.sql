-- trigger: interval
-- partition: tbname
-- result: ws TIMESTAMP, we TIMESTAMP, d BIGINT, n BIGINT, s BIGINT
-- query
SELECT _wstart AS ws, _wend AS we, _wduration AS d, count(*) AS n, sum(v) AS s FROM %%trows SESSION(ts, 2s)
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_agg`.`_k0` AS `ws`,
  `_agg`.`_k1` AS `we`,
  CAST((
    `_agg`.`_k1` - `_agg`.`_k0`
  ) AS BIGINT) AS `d`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `s`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    `_src0`.`_ws` AS `_k0`,
    `_src0`.`_we` AS `_k1`,
    `_src0`.`_w` AS `_k2`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM (
    SELECT
      `_src0`.`_tid` AS `_tid`,
      `_src0`.`ts` AS `ts`,
      `_src0`.`v` AS `v`,
      `_src0`.`_before` AS `_before`,
      `_src0`.`_w` AS `_w`,
      MIN(`_src0`.`ts`) OVER (PARTITION BY `_src0`.`_tid`, `_src0`.`_w`) AS `_ws`,
      MAX(`_src0`.`ts`) OVER (PARTITION BY `_src0`.`_tid`, `_src0`.`_w`) AS `_we`
    FROM (
      SELECT
        `_src0`.`_tid` AS `_tid`,
        `_src0`.`ts` AS `ts`,
        `_src0`.`v` AS `v`,
        `_src0`.`_before` AS `_before`,
        SUM(CASE WHEN (
          `_src0`.`ts` - `_src0`.`_before`
        ) > 2000 THEN 1 ELSE 0 END) OVER (
          PARTITION BY `_src0`.`_tid`
          ORDER BY `_src0`.`ts`
          ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS `_w`
      FROM (
        SELECT
          `_src0`.`_tid` AS `_tid`,
          `_src0`.`ts` AS `ts`,
          `_src0`.`v` AS `v`,
          LAST_VALUE(`_src0`.`ts`) OVER (
            PARTITION BY `_src0`.`_tid`
            ORDER BY `_src0`.`ts`
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ) AS `_before`
        FROM `_src0`
      ) AS `_src0`
    ) AS `_src0`
  ) AS `_src0`
  GROUP BY
    `_src0`.`_tid`,
    `_src0`.`_ws`,
    `_src0`.`_we`,
    `_src0`.`_w`
) AS `_agg`
ORDER BY
  `_tid`,
  `_agg`.`_k0`,
  `_agg`.`_k1`,
  `_agg`.`_k2`
-- one
SELECT
  `_agg`.`_k0` AS `ws`,
  `_agg`.`_k1` AS `we`,
  CAST((
    `_agg`.`_k1` - `_agg`.`_k0`
  ) AS BIGINT) AS `d`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `s`
FROM (
  SELECT
    `_src0`.`_ws` AS `_k0`,
    `_src0`.`_we` AS `_k1`,
    `_src0`.`_w` AS `_k2`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM (
    SELECT
      `_src0`.`ts` AS `ts`,
      `_src0`.`v` AS `v`,
      `_src0`.`_before` AS `_before`,
      `_src0`.`_w` AS `_w`,
      MIN(`_src0`.`ts`) OVER (PARTITION BY `_src0`.`_w`) AS `_ws`,
      MAX(`_src0`.`ts`) OVER (PARTITION BY `_src0`.`_w`) AS `_we`
    FROM (
      SELECT
        `_src0`.`ts` AS `ts`,
        `_src0`.`v` AS `v`,
        `_src0`.`_before` AS `_before`,
        SUM(CASE WHEN (
          `_src0`.`ts` - `_src0`.`_before`
        ) > 2000 THEN 1 ELSE 0 END) OVER (ORDER BY `_src0`.`ts` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_w`
      FROM (
        SELECT
          `_src0`.`ts` AS `ts`,
          `_src0`.`v` AS `v`,
          LAST_VALUE(`_src0`.`ts`) OVER (ORDER BY `_src0`.`ts` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS `_before`
        FROM `_src0`
      ) AS `_src0`
    ) AS `_src0`
  ) AS `_src0`
  GROUP BY
    `_src0`.`_ws`,
    `_src0`.`_we`,
    `_src0`.`_w`
) AS `_agg`
ORDER BY
  `_agg`.`_k0`,
  `_agg`.`_k1`,
  `_agg`.`_k2`
-- oracle
WITH rows AS (
  SELECT t._tid, m.ts, m.v, m.ts - lag(m.ts) OVER (PARTITION BY t._tid ORDER BY m.ts) > 2000 AS far
  FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
), cut AS (
  SELECT *, count(*) FILTER (far) OVER (PARTITION BY _tid ORDER BY ts) AS number FROM rows
)
SELECT _tid, min(ts), max(ts), max(ts) - min(ts), count(*), sum(v)::BIGINT FROM cut GROUP BY _tid, number
