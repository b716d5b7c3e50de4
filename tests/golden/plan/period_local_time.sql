-- trigger: period
-- partition: tbname
-- result: ts TIMESTAMP, back DOUBLE, tb VARCHAR(270), n BIGINT
-- query
SELECT cast(_tlocaltime / 1000000 AS TIMESTAMP) AS ts, cast(_tlocaltime AS BIGINT) - cast(_tprev_localtime AS BIGINT) AS back, %%tbname AS tb, count(*) AS n FROM %%tbname
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  CAST((
    `_trig`.`_tlocaltime` - `_trig`.`_tlocaltime` % NULLIF(1000000, 0)
  ) DIV NULLIF(1000000, 0) AS BIGINT) AS `ts`,
  CAST((
    CAST(`_trig`.`_tlocaltime` AS BIGINT) - CAST(`_trig`.`_tprev_localtime` AS BIGINT)
  ) AS DOUBLE) AS `back`,
  `_trig`.`_tbname` AS `tb`,
  COALESCE(`_agg`.`_a0`, 0) AS `n`
FROM `_trig`
LEFT JOIN (
  SELECT
    `_src0`.`_tid` AS `_tid`,
    COUNT(*) AS `_a0`
  FROM `_src0`
  GROUP BY
    `_src0`.`_tid`
) AS `_agg`
  ON `_agg`.`_tid` = `_trig`.`_tid`
-- one
SELECT
  CAST((
    CAST({_tlocaltime} AS BIGINT) - CAST({_tlocaltime} AS BIGINT) % NULLIF(1000000, 0)
  ) DIV NULLIF(1000000, 0) AS BIGINT) AS `ts`,
  CAST((
    CAST(CAST({_tlocaltime} AS BIGINT) AS BIGINT) - CAST(CAST({_tprev_localtime} AS BIGINT) AS BIGINT)
  ) AS DOUBLE) AS `back`,
  CAST({%%tbname} AS STRING) AS `tb`,
  `_agg`.`_a0` AS `n`
FROM (
  SELECT
    COUNT(*) AS `_a0`
  FROM `_src0`
) AS `_agg`
-- oracle
SELECT t._tid, trunc(t._tlocaltime / 1000000)::BIGINT, (t._tlocaltime - t._tprev_localtime)::DOUBLE, t._tbname, count(m.ts)
FROM _trig t LEFT JOIN meters m ON m.tbname = t._tbname
GROUP BY ALL
