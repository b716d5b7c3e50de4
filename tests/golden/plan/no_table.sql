-- trigger: interval
-- partition: tbname
-- result: ts TIMESTAMP, g BIGINT, t VARCHAR(270), x VARCHAR(1), nothing VARCHAR(1)
-- query
SELECT _twstart AS ts, _tgrpid AS g, %%tbname AS t, 'x' AS x, NULL AS nothing
-- set
SELECT
  `_trig`.`_tid` AS `_tid`,
  `_trig`.`_twstart` AS `ts`,
  `_trig`.`_tgrpid` AS `g`,
  `_trig`.`_tbname` AS `t`,
  CAST('x' AS STRING) AS `x`,
  CAST(NULL AS STRING) AS `nothing`
FROM `_trig`
-- one
SELECT
  CAST({_twstart} AS BIGINT) AS `ts`,
  CAST({_tgrpid} AS BIGINT) AS `g`,
  CAST({%%tbname} AS STRING) AS `t`,
  CAST('x' AS STRING) AS `x`,
  CAST(NULL AS STRING) AS `nothing`
-- oracle
SELECT _tid, _twstart, _tgrpid, _tbname, 'x', NULL FROM _trig
