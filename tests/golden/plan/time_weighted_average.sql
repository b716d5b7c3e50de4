-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, twa(v) DOUBLE, elapsed(ts, 1s) DOUBLE, irate(v) DOUBLE
-- query
SELECT _twstart AS ts, twa(v), elapsed(ts, 1s), irate(v) FROM %%trows
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_agg`.`_a0` AS `twa(v)`,
  `_agg`.`_a1` AS `elapsed(ts, 1s)`,
  `_agg`.`_a2` AS `irate(v)`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COALESCE(
      (
        CAST(SUM(
          CASE
            WHEN `_src0`.`_pt_0` < `_src0`.`_t_0`
            THEN (
              CAST((
                `_src0`.`_t_0` - `_src0`.`_pt_0`
              ) AS DOUBLE) * (
                (
                  `_src0`.`_pv_0` + `_src0`.`_v_0`
                ) * 0.5
              )
            )
            ELSE CAST(0 AS DOUBLE)
          END
        ) AS DOUBLE) / NULLIF(CAST((
          MAX(`_src0`.`_t_0`) - MIN(`_src0`.`_t_0`)
        ) AS DOUBLE), 0)
      ),
      MAX_BY(`_src0`.`_v_0`, `_src0`.`ts`) FILTER(WHERE
        NOT `_src0`.`_v_0` IS NULL)
    ) AS `_a0`,
    CAST((
      MAX(`_src0`.`ts`) - MIN(`_src0`.`ts`)
    ) AS DOUBLE) / CAST(1000 AS DOUBLE) AS `_a1`,
    CASE
      WHEN COUNT(`_src0`.`_v_0`) = 0
      THEN NULL
      WHEN MAX(`_src0`.`_c_0`) > MIN(`_src0`.`_c_0`)
      THEN COALESCE(
        MAX_BY(
          (
            (
              CAST(CASE
                WHEN `_src0`.`_v_0` >= `_src0`.`_pv_0`
                THEN (
                  `_src0`.`_v_0` - `_src0`.`_pv_0`
                )
                ELSE `_src0`.`_v_0`
              END AS DOUBLE) / NULLIF(CAST((
                `_src0`.`_t_0` - `_src0`.`_pt_0`
              ) AS DOUBLE), 0)
            ) * 1000
          ),
          `_src0`.`ts`
        ) FILTER(WHERE
          NOT `_src0`.`_v_0` IS NULL),
        CAST(0 AS DOUBLE)
      )
      ELSE CAST(0 AS DOUBLE)
    END AS `_a2`,
    COUNT(*) AS `_a3`
  FROM (
    SELECT
      `_src0`.`_tid` AS `_tid`,
      `_src0`.`ts` AS `ts`,
      `_src0`.`v` AS `v`,
      `_src0`.`_v_0` AS `_v_0`,
      `_src0`.`_t_0` AS `_t_0`,
      LAST_VALUE(`_src0`.`_t_0`) IGNORE NULLS OVER (
        PARTITION BY `_src0`.`_tid`
        ORDER BY `_src0`.`ts`
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_pt_0`,
      LAST_VALUE(`_src0`.`_v_0`) IGNORE NULLS OVER (
        PARTITION BY `_src0`.`_tid`
        ORDER BY `_src0`.`ts`
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_pv_0`,
      CASE
        WHEN NOT `_src0`.`_v_0` IS NULL
        THEN COUNT(`_src0`.`_v_0`) OVER (
          PARTITION BY `_src0`.`_tid`
          ORDER BY `_src0`.`ts`
          ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        )
      END AS `_c_0`
    FROM (
      SELECT
        `_src0`.`_tid` AS `_tid`,
        `_src0`.`ts` AS `ts`,
        `_src0`.`v` AS `v`,
        CAST(`_src0`.`v` AS DOUBLE) AS `_v_0`,
        CASE WHEN NOT `_src0`.`v` IS NULL THEN `_src0`.`ts` END AS `_t_0`
      FROM `_src0`
    ) AS `_src0`
  ) AS `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
JOIN `_trig`
  ON `_trig`.`_tid` = `_agg`.`_tid`
WHERE
  `_agg`.`_a3` > 0
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  `_agg`.`_a0` AS `twa(v)`,
  `_agg`.`_a1` AS `elapsed(ts, 1s)`,
  `_agg`.`_a2` AS `irate(v)`
FROM (
  SELECT
    COALESCE(
      (
        CAST(SUM(
          CASE
            WHEN `_src0`.`_pt_0` < `_src0`.`_t_0`
            THEN (
              CAST((
                `_src0`.`_t_0` - `_src0`.`_pt_0`
              ) AS DOUBLE) * (
                (
                  `_src0`.`_pv_0` + `_src0`.`_v_0`
                ) * 0.5
              )
            )
            ELSE CAST(0 AS DOUBLE)
          END
        ) AS DOUBLE) / NULLIF(CAST((
          MAX(`_src0`.`_t_0`) - MIN(`_src0`.`_t_0`)
        ) AS DOUBLE), 0)
      ),
      MAX_BY(`_src0`.`_v_0`, `_src0`.`ts`) FILTER(WHERE
        NOT `_src0`.`_v_0` IS NULL)
    ) AS `_a0`,
    CAST((
      MAX(`_src0`.`ts`) - MIN(`_src0`.`ts`)
    ) AS DOUBLE) / CAST(1000 AS DOUBLE) AS `_a1`,
    CASE
      WHEN COUNT(`_src0`.`_v_0`) = 0
      THEN NULL
      WHEN MAX(`_src0`.`_c_0`) > MIN(`_src0`.`_c_0`)
      THEN COALESCE(
        MAX_BY(
          (
            (
              CAST(CASE
                WHEN `_src0`.`_v_0` >= `_src0`.`_pv_0`
                THEN (
                  `_src0`.`_v_0` - `_src0`.`_pv_0`
                )
                ELSE `_src0`.`_v_0`
              END AS DOUBLE) / NULLIF(CAST((
                `_src0`.`_t_0` - `_src0`.`_pt_0`
              ) AS DOUBLE), 0)
            ) * 1000
          ),
          `_src0`.`ts`
        ) FILTER(WHERE
          NOT `_src0`.`_v_0` IS NULL),
        CAST(0 AS DOUBLE)
      )
      ELSE CAST(0 AS DOUBLE)
    END AS `_a2`,
    COUNT(*) AS `_a3`
  FROM (
    SELECT
      `_src0`.`ts` AS `ts`,
      `_src0`.`v` AS `v`,
      `_src0`.`_v_0` AS `_v_0`,
      `_src0`.`_t_0` AS `_t_0`,
      LAST_VALUE(`_src0`.`_t_0`) IGNORE NULLS OVER (ORDER BY `_src0`.`ts` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS `_pt_0`,
      LAST_VALUE(`_src0`.`_v_0`) IGNORE NULLS OVER (ORDER BY `_src0`.`ts` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS `_pv_0`,
      CASE
        WHEN NOT `_src0`.`_v_0` IS NULL
        THEN COUNT(`_src0`.`_v_0`) OVER (ORDER BY `_src0`.`ts` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      END AS `_c_0`
    FROM (
      SELECT
        `_src0`.`ts` AS `ts`,
        `_src0`.`v` AS `v`,
        CAST(`_src0`.`v` AS DOUBLE) AS `_v_0`,
        CASE WHEN NOT `_src0`.`v` IS NULL THEN `_src0`.`ts` END AS `_t_0`
      FROM `_src0`
    ) AS `_src0`
  ) AS `_src0`
) AS `_agg`
WHERE
  `_agg`.`_a3` > 0
-- oracle
WITH m AS (
  SELECT t._tid, t._twstart, m.ts, m.v, lag(m.ts) OVER w AS pt, lag(m.v) OVER w AS pv, count(*) OVER w AS c
  FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
  WHERE m.v IS NOT NULL WINDOW w AS (PARTITION BY t._tid ORDER BY m.ts)
), known AS (
  SELECT _tid, coalesce(sum((v + pv) / 2.0 * (ts - pt)) / (max(ts) - min(ts)), max(v)) AS average,
         coalesce(arg_max(CASE WHEN v >= pv THEN v - pv ELSE v END * 1000.0 / (ts - pt), ts), 0.0) AS rate
  FROM m GROUP BY _tid
)
SELECT t._tid, t._twstart, any_value(known.average), (max(m.ts) - min(m.ts)) / 1000.0, any_value(known.rate)
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
LEFT JOIN known ON known._tid = t._tid
GROUP BY t._tid, t._twstart
