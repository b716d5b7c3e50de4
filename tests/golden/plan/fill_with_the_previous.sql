-- trigger: interval
-- partition: tbname
-- result: ws TIMESTAMP, s BIGINT, n BIGINT
-- query
SELECT _wstart AS ws, sum(v) AS s, count(*) AS n FROM %%trows INTERVAL(5s) FILL(PREV)
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  `_agg`.`_k0` AS `ws`,
  `_agg`.`_f0` AS `s`,
  `_agg`.`_f1` AS `n`
FROM (
  SELECT
    `_agg`.`_tid` AS `_tid`,
    `_agg`.`_k0` AS `_k0`,
    `_agg`.`_a0` AS `_a0`,
    `_agg`.`_a1` AS `_a1`,
    LAST_VALUE(`_agg`.`_r0`) IGNORE NULLS OVER (
      PARTITION BY `_agg`.`_tid`
      ORDER BY `_agg`.`_k0`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `_f0`,
    LAST_VALUE(`_agg`.`_r1`) IGNORE NULLS OVER (
      PARTITION BY `_agg`.`_tid`
      ORDER BY `_agg`.`_k0`
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS `_f1`
  FROM (
    SELECT
      `_agg`.`_tid` AS `_tid`,
      `_agg`.`_p` AS `_k0`,
      `_agg`.`_a0` AS `_a0`,
      `_agg`.`_a1` AS `_a1`,
      CASE WHEN `_agg`.`_p` = `_agg`.`_k0` THEN `_agg`.`_a0` END AS `_r0`,
      CASE WHEN `_agg`.`_p` = `_agg`.`_k0` THEN `_agg`.`_a1` END AS `_r1`
    FROM (
      SELECT
        `_agg`.`_tid` AS `_tid`,
        `_agg`.`_k0` AS `_k0`,
        `_agg`.`_a0` AS `_a0`,
        `_agg`.`_a1` AS `_a1`,
        EXPLODE(
          CASE
            WHEN (
              (
                CASE
                  WHEN `_agg`.`_after` IS NULL
                  THEN CAST((
                    (
                      `_trig`.`_twend` - 1
                    ) - (
                      (
                        (
                          (
                            `_trig`.`_twend` - 1
                          ) % 5000
                        ) + 5000
                      ) % 5000
                    )
                  ) AS BIGINT)
                  ELSE `_agg`.`_after` - 5000
                END
              ) - CASE
                WHEN `_agg`.`_before` IS NULL
                THEN CAST((
                  `_trig`.`_twstart` - (
                    (
                      (
                        `_trig`.`_twstart` % 5000
                      ) + 5000
                    ) % 5000
                  )
                ) AS BIGINT)
                ELSE `_agg`.`_k0`
              END
            ) >= 50000000000
            THEN RAISE_ERROR(
              (
                'FILL would make ' || CAST(CAST((
                  (
                    CASE
                      WHEN `_agg`.`_after` IS NULL
                      THEN CAST((
                        (
                          `_trig`.`_twend` - 1
                        ) - (
                          (
                            (
                              (
                                `_trig`.`_twend` - 1
                              ) % 5000
                            ) + 5000
                          ) % 5000
                        )
                      ) AS BIGINT)
                      ELSE `_agg`.`_after` - 5000
                    END
                  ) - CASE
                    WHEN `_agg`.`_before` IS NULL
                    THEN CAST((
                      `_trig`.`_twstart` - (
                        (
                          (
                            `_trig`.`_twstart` % 5000
                          ) + 5000
                        ) % 5000
                      )
                    ) AS BIGINT)
                    ELSE `_agg`.`_k0`
                  END
                ) DIV 5000 AS BIGINT) AS STRING) || ' windows; at most 10000000 are allowed'
              )
            )
            ELSE CASE
              WHEN CASE
                WHEN `_agg`.`_before` IS NULL
                THEN CAST((
                  `_trig`.`_twstart` - (
                    (
                      (
                        `_trig`.`_twstart` % 5000
                      ) + 5000
                    ) % 5000
                  )
                ) AS BIGINT)
                ELSE `_agg`.`_k0`
              END <= CASE
                WHEN `_agg`.`_after` IS NULL
                THEN CAST((
                  (
                    `_trig`.`_twend` - 1
                  ) - (
                    (
                      (
                        (
                          `_trig`.`_twend` - 1
                        ) % 5000
                      ) + 5000
                    ) % 5000
                  )
                ) AS BIGINT)
                ELSE `_agg`.`_after` - 5000
              END
              THEN SEQUENCE(
                CASE
                  WHEN `_agg`.`_before` IS NULL
                  THEN CAST((
                    `_trig`.`_twstart` - (
                      (
                        (
                          `_trig`.`_twstart` % 5000
                        ) + 5000
                      ) % 5000
                    )
                  ) AS BIGINT)
                  ELSE `_agg`.`_k0`
                END,
                CASE
                  WHEN `_agg`.`_after` IS NULL
                  THEN CAST((
                    (
                      `_trig`.`_twend` - 1
                    ) - (
                      (
                        (
                          (
                            `_trig`.`_twend` - 1
                          ) % 5000
                        ) + 5000
                      ) % 5000
                    )
                  ) AS BIGINT)
                  ELSE `_agg`.`_after` - 5000
                END,
                5000
              )
            END
          END
        ) AS `_p`
      FROM (
        SELECT
          `_agg`.`_tid` AS `_tid`,
          `_agg`.`_k0` AS `_k0`,
          `_agg`.`_a0` AS `_a0`,
          `_agg`.`_a1` AS `_a1`,
          LAST_VALUE(`_agg`.`_k0`) OVER (
            PARTITION BY `_agg`.`_tid`
            ORDER BY `_agg`.`_k0`
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ) AS `_before`,
          LAST_VALUE(`_agg`.`_k0`) OVER (
            PARTITION BY `_agg`.`_tid`
            ORDER BY `_agg`.`_k0` DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ) AS `_after`
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
            ) AS `_k0`,
            CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a0`,
            COUNT(*) AS `_a1`
          FROM `_src0`
          GROUP BY
            `_src0`.`_tid`,
            (
              `_src0`.`ts` - (
                (
                  (
                    `_src0`.`ts` % 5000
                  ) + 5000
                ) % 5000
              )
            )
        ) AS `_agg`
      ) AS `_agg`
      JOIN `_trig`
        ON `_trig`.`_tid` = `_agg`.`_tid`
    ) AS `_agg`
  ) AS `_agg`
) AS `_agg`
ORDER BY
  `_tid`,
  `_agg`.`_k0`
-- one
SELECT
  `_agg`.`_k0` AS `ws`,
  `_agg`.`_f0` AS `s`,
  `_agg`.`_f1` AS `n`
FROM (
  SELECT
    `_agg`.`_k0` AS `_k0`,
    `_agg`.`_a0` AS `_a0`,
    `_agg`.`_a1` AS `_a1`,
    LAST_VALUE(`_agg`.`_r0`) IGNORE NULLS OVER (ORDER BY `_agg`.`_k0` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_f0`,
    LAST_VALUE(`_agg`.`_r1`) IGNORE NULLS OVER (ORDER BY `_agg`.`_k0` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS `_f1`
  FROM (
    SELECT
      `_agg`.`_p` AS `_k0`,
      `_agg`.`_a0` AS `_a0`,
      `_agg`.`_a1` AS `_a1`,
      CASE WHEN `_agg`.`_p` = `_agg`.`_k0` THEN `_agg`.`_a0` END AS `_r0`,
      CASE WHEN `_agg`.`_p` = `_agg`.`_k0` THEN `_agg`.`_a1` END AS `_r1`
    FROM (
      SELECT
        `_agg`.`_k0` AS `_k0`,
        `_agg`.`_a0` AS `_a0`,
        `_agg`.`_a1` AS `_a1`,
        EXPLODE(
          CASE
            WHEN (
              (
                CASE
                  WHEN `_agg`.`_after` IS NULL
                  THEN CAST((
                    (
                      CAST({_twend} AS BIGINT) - 1
                    ) - (
                      (
                        (
                          (
                            CAST({_twend} AS BIGINT) - 1
                          ) % 5000
                        ) + 5000
                      ) % 5000
                    )
                  ) AS BIGINT)
                  ELSE `_agg`.`_after` - 5000
                END
              ) - CASE
                WHEN `_agg`.`_before` IS NULL
                THEN CAST((
                  CAST({_twstart} AS BIGINT) - (
                    (
                      (
                        CAST({_twstart} AS BIGINT) % 5000
                      ) + 5000
                    ) % 5000
                  )
                ) AS BIGINT)
                ELSE `_agg`.`_k0`
              END
            ) >= 50000000000
            THEN RAISE_ERROR(
              (
                'FILL would make ' || CAST(CAST((
                  (
                    CASE
                      WHEN `_agg`.`_after` IS NULL
                      THEN CAST((
                        (
                          CAST({_twend} AS BIGINT) - 1
                        ) - (
                          (
                            (
                              (
                                CAST({_twend} AS BIGINT) - 1
                              ) % 5000
                            ) + 5000
                          ) % 5000
                        )
                      ) AS BIGINT)
                      ELSE `_agg`.`_after` - 5000
                    END
                  ) - CASE
                    WHEN `_agg`.`_before` IS NULL
                    THEN CAST((
                      CAST({_twstart} AS BIGINT) - (
                        (
                          (
                            CAST({_twstart} AS BIGINT) % 5000
                          ) + 5000
                        ) % 5000
                      )
                    ) AS BIGINT)
                    ELSE `_agg`.`_k0`
                  END
                ) DIV 5000 AS BIGINT) AS STRING) || ' windows; at most 10000000 are allowed'
              )
            )
            ELSE CASE
              WHEN CASE
                WHEN `_agg`.`_before` IS NULL
                THEN CAST((
                  CAST({_twstart} AS BIGINT) - (
                    (
                      (
                        CAST({_twstart} AS BIGINT) % 5000
                      ) + 5000
                    ) % 5000
                  )
                ) AS BIGINT)
                ELSE `_agg`.`_k0`
              END <= CASE
                WHEN `_agg`.`_after` IS NULL
                THEN CAST((
                  (
                    CAST({_twend} AS BIGINT) - 1
                  ) - (
                    (
                      (
                        (
                          CAST({_twend} AS BIGINT) - 1
                        ) % 5000
                      ) + 5000
                    ) % 5000
                  )
                ) AS BIGINT)
                ELSE `_agg`.`_after` - 5000
              END
              THEN SEQUENCE(
                CASE
                  WHEN `_agg`.`_before` IS NULL
                  THEN CAST((
                    CAST({_twstart} AS BIGINT) - (
                      (
                        (
                          CAST({_twstart} AS BIGINT) % 5000
                        ) + 5000
                      ) % 5000
                    )
                  ) AS BIGINT)
                  ELSE `_agg`.`_k0`
                END,
                CASE
                  WHEN `_agg`.`_after` IS NULL
                  THEN CAST((
                    (
                      CAST({_twend} AS BIGINT) - 1
                    ) - (
                      (
                        (
                          (
                            CAST({_twend} AS BIGINT) - 1
                          ) % 5000
                        ) + 5000
                      ) % 5000
                    )
                  ) AS BIGINT)
                  ELSE `_agg`.`_after` - 5000
                END,
                5000
              )
            END
          END
        ) AS `_p`
      FROM (
        SELECT
          `_agg`.`_k0` AS `_k0`,
          `_agg`.`_a0` AS `_a0`,
          `_agg`.`_a1` AS `_a1`,
          LAST_VALUE(`_agg`.`_k0`) OVER (ORDER BY `_agg`.`_k0` ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS `_before`,
          LAST_VALUE(`_agg`.`_k0`) OVER (ORDER BY `_agg`.`_k0` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS `_after`
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
            ) AS `_k0`,
            CAST(SUM(`_src0`.`v`) AS BIGINT) AS `_a0`,
            COUNT(*) AS `_a1`
          FROM `_src0`
          GROUP BY
            (
              `_src0`.`ts` - (
                (
                  (
                    `_src0`.`ts` % 5000
                  ) + 5000
                ) % 5000
              )
            )
        ) AS `_agg`
      ) AS `_agg`
    ) AS `_agg`
  ) AS `_agg`
) AS `_agg`
ORDER BY
  `_agg`.`_k0`
-- oracle
WITH windows AS (
  SELECT t._tid, m.ts - m.ts % 5000 AS ws, sum(m.v)::BIGINT AS s, count(*) AS n
  FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend GROUP BY ALL
), every AS (
  SELECT t._tid, unnest(generate_series(t._twstart, t._twend - 1, 5000)) AS ws FROM _trig t
  WHERE t._tid IN (SELECT _tid FROM windows)
)
SELECT e._tid, e.ws,
  (SELECT w.s FROM windows w WHERE w._tid = e._tid AND w.ws <= e.ws AND w.s IS NOT NULL ORDER BY w.ws DESC LIMIT 1),
  (SELECT w.n FROM windows w WHERE w._tid = e._tid AND w.ws <= e.ws ORDER BY w.ws DESC LIMIT 1)
FROM every e
