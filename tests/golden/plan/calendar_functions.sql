-- trigger: sliding
-- partition: tbname
-- result: ts TIMESTAMP, local VARCHAR(19), day BIGINT, s VARCHAR(16), c FLOAT
-- query
SELECT ts, to_char(ts, 'yyyy-mm-dd hh24:mi:ss') AS local, weekday(ts) AS day, substring_index(s, 't', 1) AS s, truncate(c0, 1) AS c FROM %%trows
-- set
SELECT
  `_src0`.`_tid` AS `_tid`,
  `_src0`.`ts` AS `ts`,
  CAST((
    CASE
      WHEN YEAR(
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
      ) <= 9999
      THEN LPAD(
        CAST(YEAR(
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
        ) AS STRING),
        4,
        '0'
      )
    END || '-' || LPAD(
      CAST(MONTH(
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
      ) AS STRING),
      2,
      '0'
    ) || '-' || LPAD(
      CAST(DAY(
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
      ) AS STRING),
      2,
      '0'
    ) || ' ' || LPAD(
      CAST((
        (
          (
            (
              (
                `_src0`.`ts` % 86400000
              ) + 86400000
            ) % 86400000
          ) DIV 3600000
        ) % 24
      ) AS STRING),
      2,
      '0'
    ) || ':' || LPAD(
      CAST((
        (
          (
            (
              (
                `_src0`.`ts` % 86400000
              ) + 86400000
            ) % 86400000
          ) DIV 60000
        ) % 60
      ) AS STRING),
      2,
      '0'
    ) || ':' || LPAD(
      CAST((
        (
          (
            (
              (
                `_src0`.`ts` % 86400000
              ) + 86400000
            ) % 86400000
          ) DIV 1000
        ) % 60
      ) AS STRING),
      2,
      '0'
    )
  ) AS STRING) AS `local`,
  CAST((
    (
      (
        (
          (
            (
              `_src0`.`ts` - (
                (
                  (
                    `_src0`.`ts` % 86400000
                  ) + 86400000
                ) % 86400000
              )
            ) DIV 86400000
          ) + 3
        ) % 7
      ) + 7
    ) % 7
  ) AS BIGINT) AS `day`,
  CAST(SUBSTRING_INDEX(`_src0`.`s`, 't', CAST(1 AS INT)) AS STRING) AS `s`,
  CAST(CASE
    WHEN ABS((
      CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
    )) > 1e300
    THEN CAST(`_src0`.`c0` AS DOUBLE)
    ELSE CASE
      WHEN ABS((
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )) >= 1e15
      THEN (
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )
      WHEN (
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      ) < 0
      THEN CAST(CEIL((
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )) AS DOUBLE)
      ELSE CAST(FLOOR((
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )) AS DOUBLE)
    END / CAST('1e1' AS DOUBLE)
  END AS FLOAT) AS `c`
FROM `_src0`
ORDER BY
  `_tid`,
  `_src0`.`ts`
-- one
SELECT
  `_src0`.`ts` AS `ts`,
  CAST((
    CASE
      WHEN YEAR(
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
      ) <= 9999
      THEN LPAD(
        CAST(YEAR(
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
        ) AS STRING),
        4,
        '0'
      )
    END || '-' || LPAD(
      CAST(MONTH(
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
      ) AS STRING),
      2,
      '0'
    ) || '-' || LPAD(
      CAST(DAY(
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
      ) AS STRING),
      2,
      '0'
    ) || ' ' || LPAD(
      CAST((
        (
          (
            (
              (
                `_src0`.`ts` % 86400000
              ) + 86400000
            ) % 86400000
          ) DIV 3600000
        ) % 24
      ) AS STRING),
      2,
      '0'
    ) || ':' || LPAD(
      CAST((
        (
          (
            (
              (
                `_src0`.`ts` % 86400000
              ) + 86400000
            ) % 86400000
          ) DIV 60000
        ) % 60
      ) AS STRING),
      2,
      '0'
    ) || ':' || LPAD(
      CAST((
        (
          (
            (
              (
                `_src0`.`ts` % 86400000
              ) + 86400000
            ) % 86400000
          ) DIV 1000
        ) % 60
      ) AS STRING),
      2,
      '0'
    )
  ) AS STRING) AS `local`,
  CAST((
    (
      (
        (
          (
            (
              `_src0`.`ts` - (
                (
                  (
                    `_src0`.`ts` % 86400000
                  ) + 86400000
                ) % 86400000
              )
            ) DIV 86400000
          ) + 3
        ) % 7
      ) + 7
    ) % 7
  ) AS BIGINT) AS `day`,
  CAST(SUBSTRING_INDEX(`_src0`.`s`, 't', CAST(1 AS INT)) AS STRING) AS `s`,
  CAST(CASE
    WHEN ABS((
      CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
    )) > 1e300
    THEN CAST(`_src0`.`c0` AS DOUBLE)
    ELSE CASE
      WHEN ABS((
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )) >= 1e15
      THEN (
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )
      WHEN (
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      ) < 0
      THEN CAST(CEIL((
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )) AS DOUBLE)
      ELSE CAST(FLOOR((
        CAST(`_src0`.`c0` AS DOUBLE) * CAST('1e1' AS DOUBLE)
      )) AS DOUBLE)
    END / CAST('1e1' AS DOUBLE)
  END AS FLOAT) AS `c`
FROM `_src0`
ORDER BY
  `_src0`.`ts`
-- oracle
SELECT t._tid, m.ts, strftime(make_timestamp(m.ts * 1000), '%Y-%m-%d %H:%M:%S'), isodow(make_timestamp(m.ts * 1000)) - 1,
       split_part(m.s, 't', 1), trunc(m.c0 * 10) / 10
FROM _trig t JOIN meters m ON m.tbname = t._tbname AND m.ts > t._tprev_ts AND m.ts <= t._tcurrent_ts
