-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, te TIMESTAMP, d BIGINT, tw TIMESTAMP, n BIGINT, s BIGINT
-- query
SELECT _wstart AS ts, _wend AS te, _wduration AS d, _twstart AS tw, count(*) AS n, sum(v) AS s FROM %%trows INTERVAL(4s, 1s) SLIDING(2s)
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_agg`.`_k0` AS `ts`,
  CAST((
    `_agg`.`_k0` + 4000
  ) AS BIGINT) AS `te`,
  CAST(4000 AS BIGINT) AS `d`,
  `_trig`.`_twstart` AS `tw`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `s`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    (
      `_src0`.`ts` - (
        (
          (
            (
              `_src0`.`ts` + (
                -1000
              )
            ) % 2000
          ) + 2000
        ) % 2000
      ) - `_win`.`n` * 2000
    ) AS `_k0`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
  CROSS JOIN VALUES
    (0),
    (1) AS `_win`(`n`)
  WHERE
    `_src0`.`ts` < (
      (
        `_src0`.`ts` - (
          (
            (
              (
                `_src0`.`ts` + (
                  -1000
                )
              ) % 2000
            ) + 2000
          ) % 2000
        ) - `_win`.`n` * 2000
      ) + 4000
    )
  GROUP BY
    `_src0`.`_tid`,
    (
      `_src0`.`ts` - (
        (
          (
            (
              `_src0`.`ts` + (
                -1000
              )
            ) % 2000
          ) + 2000
        ) % 2000
      ) - `_win`.`n` * 2000
    )
) AS `_agg`
JOIN `_trig`
  ON `_trig`.`_tid` = `_agg`.`_tid`
ORDER BY
  `_tid`,
  `_agg`.`_k0`
-- one
SELECT
  `_agg`.`_k0` AS `ts`,
  CAST((
    `_agg`.`_k0` + 4000
  ) AS BIGINT) AS `te`,
  CAST(4000 AS BIGINT) AS `d`,
  CAST({_twstart} AS BIGINT) AS `tw`,
  `_agg`.`_a0` AS `n`,
  `_agg`.`_a1` AS `s`
FROM (
  SELECT
    (
      `_src0`.`ts` - (
        (
          (
            (
              `_src0`.`ts` + (
                -1000
              )
            ) % 2000
          ) + 2000
        ) % 2000
      ) - `_win`.`n` * 2000
    ) AS `_k0`,
    COUNT(*) AS `_a0`,
    CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a1`
  FROM `_src0`
  CROSS JOIN VALUES
    (0),
    (1) AS `_win`(`n`)
  WHERE
    `_src0`.`ts` < (
      (
        `_src0`.`ts` - (
          (
            (
              (
                `_src0`.`ts` + (
                  -1000
                )
              ) % 2000
            ) + 2000
          ) % 2000
        ) - `_win`.`n` * 2000
      ) + 4000
    )
  GROUP BY
    (
      `_src0`.`ts` - (
        (
          (
            (
              `_src0`.`ts` + (
                -1000
              )
            ) % 2000
          ) + 2000
        ) % 2000
      ) - `_win`.`n` * 2000
    )
) AS `_agg`
ORDER BY
  `_agg`.`_k0`
-- oracle
SELECT t._tid, w.w, w.w + 4000, 4000, t._twstart, count(*), sum(m.v)::BIGINT
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend
JOIN (SELECT DISTINCT (ts - 1000 - (ts - 1000) % 2000 - 2000 * n) + 1000 AS w FROM meters, range(3) r(n)) w
  ON m.ts >= w.w AND m.ts < w.w + 4000
GROUP BY ALL
