-- trigger: interval
-- partition: tbname
-- result: ws TIMESTAMP, we TIMESTAMP, n BIGINT
-- query
SELECT _wstart AS ws, _wend AS we, count(*) AS n FROM %%trows INTERVAL(1n)
-- set
SELECT
  `_agg`.`_tid` AS `_tid`,
  CAST((
    CAST(UNIX_DATE(ADD_MONTHS(CAST('1970-01-01' AS DATE), CAST(`_agg`.`_k0` AS INT))) AS BIGINT) * 86400000
  ) AS BIGINT) AS `ws`,
  CAST((
    CAST(UNIX_DATE(ADD_MONTHS(CAST('1970-01-01' AS DATE), CAST((
      `_agg`.`_k0` + 1
    ) AS INT))) AS BIGINT) * 86400000
  ) AS BIGINT) AS `we`,
  `_agg`.`_a0` AS `n`
FROM (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    (
      CAST((
        YEAR(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) * 12 + MONTH(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) - 23641
      ) AS BIGINT) - (
        (
          (
            CAST((
              YEAR(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) * 12 + MONTH(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) - 23641
            ) AS BIGINT) % 1
          ) + 1
        ) % 1
      )
    ) AS `_k0`,
    COUNT(*) AS `_a0`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`,
    (
      CAST((
        YEAR(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) * 12 + MONTH(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) - 23641
      ) AS BIGINT) - (
        (
          (
            CAST((
              YEAR(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) * 12 + MONTH(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) - 23641
            ) AS BIGINT) % 1
          ) + 1
        ) % 1
      )
    )
) AS `_agg`
ORDER BY
  `_tid`,
  `_agg`.`_k0`
-- one
SELECT
  CAST((
    CAST(UNIX_DATE(ADD_MONTHS(CAST('1970-01-01' AS DATE), CAST(`_agg`.`_k0` AS INT))) AS BIGINT) * 86400000
  ) AS BIGINT) AS `ws`,
  CAST((
    CAST(UNIX_DATE(ADD_MONTHS(CAST('1970-01-01' AS DATE), CAST((
      `_agg`.`_k0` + 1
    ) AS INT))) AS BIGINT) * 86400000
  ) AS BIGINT) AS `we`,
  `_agg`.`_a0` AS `n`
FROM (
  SELECT
    (
      CAST((
        YEAR(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) * 12 + MONTH(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) - 23641
      ) AS BIGINT) - (
        (
          (
            CAST((
              YEAR(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) * 12 + MONTH(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) - 23641
            ) AS BIGINT) % 1
          ) + 1
        ) % 1
      )
    ) AS `_k0`,
    COUNT(*) AS `_a0`
  FROM `_src0`
  GROUP BY
    (
      CAST((
        YEAR(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) * 12 + MONTH(
          DATE_ADD(
            CAST('1970-01-01' AS DATE),
            CAST((
              (
                `_src0`.`ts` - (
                  (
                    (
                      `_src0`.`ts` % 86400000
                    ) + 86400000
                  ) % 86400000
                )
              ) DIV 86400000
            ) AS INT)
          )
        ) - 23641
      ) AS BIGINT) - (
        (
          (
            CAST((
              YEAR(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) * 12 + MONTH(
                DATE_ADD(
                  CAST('1970-01-01' AS DATE),
                  CAST((
                    (
                      `_src0`.`ts` - (
                        (
                          (
                            `_src0`.`ts` % 86400000
                          ) + 86400000
                        ) % 86400000
                      )
                    ) DIV 86400000
                  ) AS INT)
                )
              ) - 23641
            ) AS BIGINT) % 1
          ) + 1
        ) % 1
      )
    )
) AS `_agg`
ORDER BY
  `_agg`.`_k0`
-- oracle
SELECT t._tid, epoch_ms(date_trunc('month', make_timestamp(m.ts * 1000))),
  epoch_ms(date_trunc('month', make_timestamp(m.ts * 1000)) + INTERVAL 1 MONTH), count(*)
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts >= t._twstart AND m.ts < t._twend GROUP BY ALL
