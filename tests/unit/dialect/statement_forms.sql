-- One of each form of statement that the conformance cases send; a line with a semicolon alone ends each.
ALTER STABLE lab.og ADD COLUMN fresh DOUBLE
;
ALTER STABLE lab.og DROP COLUMN spare
;
ALTER TABLE lab.oc1 SET TAG note = 11
;
CREATE DATABASE IF NOT EXISTS lab
;
CREATE DATABASE IF NOT EXISTS lab PRECISION 'us'
;
CREATE STABLE lab.unit (ts TIMESTAMP, st INT) TAGS (site INT)
;
CREATE STABLE lab.st (ts TIMESTAMP, lvl INT, code VARCHAR(10), hit BOOL) TAGS (k INT)
;
CREATE STABLE lab.st (ts TIMESTAMP, v INT) TAGS (j JSON)
;
CREATE STABLE lab.st (ts TIMESTAMP, v INT) TAGS (site VARCHAR(8))
;
CREATE STABLE lab.st (ts TIMESTAMP, v INT) TAGS (site VARCHAR(8), rack INT)
;
CREATE STABLE lab.ip (ts TIMESTAMP, v INT) TAGS (k INT, j INT)
;
CREATE STABLE lab.ii_out (ts TIMESTAMP, hi INT) TAGS (k INT, who VARCHAR(16))
;
CREATE STABLE lab.w_super (ts TIMESTAMP, n BIGINT, mean DOUBLE) TAGS (k INT)
;
CREATE STABLE lab.w_tagtype (ts TIMESTAMP, n BIGINT, mean DOUBLE) TAGS (k BIGINT)
;
CREATE STABLE lab.ic (ts TIMESTAMP, v INT) TAGS (plant VARCHAR(16), hall INT, note VARCHAR(8))
;
CREATE STABLE lab.og (ts TIMESTAMP, v INT, spare INT) TAGS (k INT)
;
CREATE STABLE lab.st (ts TIMESTAMP, v INT, f FLOAT) TAGS (k INT)
;
CREATE STABLE lab.virt (ts TIMESTAMP, st INT) TAGS (k INT) VIRTUAL 1
;
CREATE STREAM lab.sa SLIDING(5m) FROM lab.src INTO lab.res AS
SELECT _wstart AS ws, count(*) AS n, first(v) AS f FROM lab.src
WHERE ts >= _tprev_ts AND ts < _tcurrent_ts ANOMALY_WINDOW(v, 'algo=iqr, wncheck=0')
;
CREATE STREAM lab.s_c COUNT_WINDOW(3) FROM lab.line
  INTO lab.o_c
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_p PERIOD(1h) FROM lab.line
  INTO lab.o_p
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.line
;
CREATE STREAM lab.s_s SLIDING(10s) FROM lab.line
  INTO lab.o_s
  AS SELECT _tcurrent_ts AS ts, count(*) AS n FROM lab.line
;
CREATE STREAM lab.s_i INTERVAL(10s) SLIDING(10s) FROM lab.line
  STREAM_OPTIONS(DELETE_RECALC)
  INTO lab.o_i
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok1 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(EVENT_TYPE(WINDOW_CLOSE))
  INTO lab.o_ok1
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(IGNORE_DISORDER | WATERMARK(5s))
  INTO lab.o_ok2
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok1 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(FILL_HISTORY)
  INTO lab.o_ok1
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(FILL_HISTORY_FIRST)
  INTO lab.o_ok2
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok1 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(MAX_DELAY(3s))
  INTO lab.o_ok1
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(MAX_DELAY(1m))
  INTO lab.o_ok2
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok3 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(MAX_DELAY(1d))
  INTO lab.o_ok3
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok1 COUNT_WINDOW(2) FROM lab.cfg
  STREAM_OPTIONS(PRE_FILTER(v > 1))
  INTO lab.o_ok1
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 PERIOD(1h) FROM lab.cfg
  STREAM_OPTIONS(PRE_FILTER(v > 1))
  INTO lab.o_ok2
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.cfg
;
CREATE STREAM lab.s_ok3 PERIOD(1h)
  INTO lab.o_ok3
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.cfg
;
CREATE STREAM lab.s_ok1 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(WATERMARK(10s) | EXPIRED_TIME(500s))
  INTO lab.o_ok1
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(EXPIRED_TIME(1d))
  INTO lab.o_ok2
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok3 STATE_WINDOW(st) FROM lab.cfg
  STREAM_OPTIONS(EXPIRED_TIME(700a))
  INTO lab.o_ok3
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_bare STATE_WINDOW(st) FROM lab.bell
  STREAM_OPTIONS(CALC_NOTIFY_ONLY)
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_into STATE_WINDOW(st) FROM lab.bell
  STREAM_OPTIONS(CALC_NOTIFY_ONLY)
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  INTO lab.bell_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_keep STATE_WINDOW(st) FROM lab.unit PARTITION BY tbname
  INTO lab.keep_out OUTPUT_SUBTABLE(concat('k_', tbname)) TAGS (src VARCHAR(64) AS tbname)
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_gone STATE_WINDOW(st) FROM lab.unit PARTITION BY tbname
  STREAM_OPTIONS(DELETE_OUTPUT_TABLE)
  INTO lab.gone_out OUTPUT_SUBTABLE(concat('g_', tbname)) TAGS (src VARCHAR(64) AS tbname)
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_lift INTERVAL(10s) SLIDING(10s) FROM lab.lift
  STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN | WINDOW_CLOSE))
  INTO lab.lift_out
  AS SELECT _twstart AS ts, count(*) AS n FROM lab.lift WHERE ts >= _twstart AND ts < _twstart + 10s
;
CREATE STREAM lab.s_open STATE_WINDOW(st) FROM lab.door
  STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN))
  INTO lab.open_out
  AS SELECT _twstart AS ts, last(st) AS st, count(*) AS n FROM lab.door WHERE ts <= _twstart
;
CREATE STREAM lab.s_dflt STATE_WINDOW(st) FROM lab.door
  INTO lab.dflt_out
  AS SELECT _twstart AS ts, last(st) AS st, count(*) AS n FROM lab.door WHERE ts <= _twstart
;
CREATE STREAM lab.s_book STATE_WINDOW(st) FROM lab.book
  STREAM_OPTIONS(EXPIRED_TIME(30s))
  INTO lab.book_out
  AS SELECT _twstart AS ts, count(*) AS n FROM lab.book WHERE ts <= _twend
;
CREATE STREAM lab.s_visit SESSION(ts, 5s) FROM lab.visit
  STREAM_OPTIONS(EXPIRED_TIME(1m))
  INTO lab.visit_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_kiln INTERVAL(10s) SLIDING(10s) FROM lab.kiln
  STREAM_OPTIONS(FILL_HISTORY)
  INTO lab.kiln_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM lab.kiln WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.s_crate COUNT_WINDOW(3) FROM lab.crate
  STREAM_OPTIONS(FILL_HISTORY_FIRST)
  INTO lab.crate_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_trip SESSION(ts, 5s) FROM lab.trip
  STREAM_OPTIONS(FILL_HISTORY_FIRST('2026-01-01 00:01:00.000'))
  INTO lab.trip_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_oven STATE_WINDOW(st) FROM lab.oven
  STREAM_OPTIONS(FILL_HISTORY('2026-01-01 00:01:00.000'))
  INTO lab.oven_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_force INTERVAL(10s) SLIDING(10s) FROM lab.tick
  STREAM_OPTIONS(FORCE_OUTPUT)
  INTO lab.force_out
  AS SELECT _twstart AS ts, v, 7 AS k, _twrownum AS rn FROM lab.src WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.s_plain INTERVAL(10s) SLIDING(10s) FROM lab.tick
  INTO lab.plain_out
  AS SELECT _twstart AS ts, v, 7 AS k, _twrownum AS rn FROM lab.src WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.s_valve STATE_WINDOW(st) FROM lab.valve
  STREAM_OPTIONS(IGNORE_DISORDER)
  INTO lab.valve_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_skip INTERVAL(20s) SLIDING(20s) FROM lab.gust
  STREAM_OPTIONS(IGNORE_NODATA_TRIGGER)
  INTO lab.skip_out
  AS SELECT _twstart AS ts, count(*) AS n FROM lab.gust WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.s_skip PERIOD(2s) FROM lab.mist
  STREAM_OPTIONS(IGNORE_NODATA_TRIGGER)
  INTO lab.skip_out
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.mist
;
CREATE STREAM lab.s_all PERIOD(2s) FROM lab.mist
  INTO lab.all_out
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.mist
;
CREATE STREAM lab.s_skip SLIDING(10s) FROM lab.hail
  STREAM_OPTIONS(IGNORE_NODATA_TRIGGER)
  INTO lab.skip_out
  AS SELECT _tcurrent_ts AS ts, count(*) AS n FROM lab.hail WHERE ts <= _tcurrent_ts
;
CREATE STREAM lab.s_fast COUNT_WINDOW(1) FROM lab.beat
  STREAM_OPTIONS(LOW_LATENCY_CALC)
  INTO lab.fast_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_mill STATE_WINDOW(st) FROM lab.mill
  STREAM_OPTIONS(WATERMARK(1m) | MAX_DELAY(3s))
  INTO lab.mill_out
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_drill EVENT_WINDOW(START WITH v >= 5 END WITH flag = 1) FROM lab.drill
  STREAM_OPTIONS(MAX_DELAY(3s))
  INTO lab.drill_out
  AS SELECT last(ts) AS ts, first(ts) AS fs, count(*) AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_dial STATE_WINDOW(st) FROM lab.dial
  STREAM_OPTIONS(PRE_FILTER(st < 5))
  INTO lab.dial_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_room COUNT_WINDOW(2) FROM lab.room PARTITION BY tbname
  STREAM_OPTIONS(PRE_FILTER(site = 2 AND v > 0))
  INTO lab.room_out
  AS SELECT _twstart AS ts, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_tally COUNT_WINDOW(3) FROM lab.tally
  STREAM_OPTIONS(WATERMARK(10s))
  INTO lab.tally_out
  AS SELECT _twstart AS ts, _twend AS te, _twrownum AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_pump INTERVAL(10s) SLIDING(10s) FROM lab.pump
  STREAM_OPTIONS(WATERMARK(8s))
  INTO lab.pump_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM lab.pump WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.s_gate SESSION(ts, 5s) FROM lab.gate
  STREAM_OPTIONS(WATERMARK(10s))
  INTO lab.gate_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_hall STATE_WINDOW(st) FROM lab.hall
  STREAM_OPTIONS(WATERMARK(10s))
  INTO lab.hall_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n, sum(st) AS s FROM %%trows
;
CREATE STREAM lab.s_lamp STATE_WINDOW(st) FROM lab.lamp
  STREAM_OPTIONS(WATERMARK(10s) | IGNORE_DISORDER)
  INTO lab.lamp_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_rain SLIDING(10s) FROM lab.rain
  STREAM_OPTIONS(MAX_DELAY(3s) | EVENT_TYPE(WINDOW_OPEN))
  INTO lab.rain_out
  AS SELECT _tcurrent_ts AS ts, count(*) AS n FROM lab.rain WHERE ts <= _tcurrent_ts
;
CREATE STREAM lab.s_ride SESSION(ts, 5s) FROM lab.ride
  STREAM_OPTIONS(DELETE_RECALC)
  INTO lab.ride_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_gear STATE_WINDOW(st) FROM lab.gear
  STREAM_OPTIONS(DELETE_RECALC)
  INTO lab.gear_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(st) AS s FROM %%trows
;
CREATE STREAM lab.s_heat EVENT_WINDOW(START WITH v >= 5 END WITH v > 10) FROM lab.heat
  INTO lab.heat_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_call SESSION(ts, 10s) FROM lab.call
  INTO lab.call_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_tank INTERVAL(10s) SLIDING(10s) FROM lab.tank
  STREAM_OPTIONS(IGNORE_DISORDER)
  INTO lab.tank_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS s FROM lab.tank WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM IF NOT EXISTS lab.s_xa COUNT_WINDOW(3) FROM lab.xa
  INTO lab.xa_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_xf EVENT_WINDOW(START WITH v > 0 END WITH v < 0) FROM lab.xf
  STREAM_OPTIONS(FILL_HISTORY)
  INTO lab.xf_out
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ig EVENT_WINDOW(START WITH v > 5 END WITH v < 5) FROM lab.ig
  INTO lab.ig_out (began, ended, peak)
  AS SELECT _twstart AS a, _twend AS b, max(v) AS c FROM %%trows
;
CREATE STREAM lab.s_ik1 COUNT_WINDOW(3) FROM lab.ik
  INTO lab.ik_key (ts, k COMPOSITE KEY, total)
  AS SELECT _twstart, k, sum(v) FROM %%trows GROUP BY k
;
CREATE STREAM lab.s_ik2 COUNT_WINDOW(3) FROM lab.ik
  INTO lab.ik_plain (ts, k, total)
  AS SELECT _twstart, k, sum(v) FROM %%trows GROUP BY k
;
CREATE STREAM lab.s_ii INTERVAL(10s) SLIDING(10s) FROM lab.ii PARTITION BY k
  INTO lab.ii_out OUTPUT_SUBTABLE(concat('ii_new', cast(k AS VARCHAR(4))))
  TAGS (k INT AS k, who VARCHAR(16) AS 'stream')
  AS SELECT _twstart AS ts, max(v) AS hi FROM %%trows
;
CREATE STREAM lab.s_ie COUNT_WINDOW(2) FROM lab.ie PARTITION BY tbname
  INTO lab.ie_out OUTPUT_SUBTABLE('ie_all') (ts, who COMPOSITE KEY, total)
  TAGS (kind VARCHAR(8) AS 'all')
  AS SELECT _twstart AS ts, %%tbname AS who, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_id STATE_WINDOW(st) FROM lab.id PARTITION BY tbname, k
  INTO lab.id_out OUTPUT_SUBTABLE(concat('o_', %%1, '_', cast(k AS VARCHAR(8))))
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ib SESSION(ts, 2s) FROM lab.ib PARTITION BY tbname
  INTO lab.ib_out
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ic INTERVAL(10s) SLIDING(10s) FROM lab.ic PARTITION BY plant, hall
  INTO lab.ic_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_if INTERVAL(5s) SLIDING(5s) FROM lab.if1 PARTITION BY k, label
  INTO lab.if_out OUTPUT_SUBTABLE(concat('g_', label)) (ws, n)
  TAGS (twice INT AS %%1 * 2, shown VARCHAR(32) COMMENT 'for people' AS concat(label, '-', cast(k AS VARCHAR(4))))
  AS SELECT _twstart, count(*) FROM %%trows
;
CREATE STREAM lab.s_kb STATE_WINDOW(st) FROM lab.kb PARTITION BY tbname
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  INTO lab.kb_out OUTPUT_SUBTABLE(concat('k_', tbname))
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_vb1 STATE_WINDOW(st) FROM lab.vb PARTITION BY tbname
  INTO lab.vb_runs OUTPUT_SUBTABLE(concat('run_', tbname))
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_vb2 COUNT_WINDOW(2) FROM lab.vb_runs PARTITION BY tbname
  INTO lab.vb_pairs OUTPUT_SUBTABLE(concat('pair_', tbname))
  AS SELECT _twstart AS ts, sum(n) AS total FROM %%trows
;
CREATE STREAM lab.s_nr INTERVAL(10s) SLIDING(10s) FROM lab.nr
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  INTO lab.nr_out
  AS SELECT _twstart AS ts, count(*) AS n FROM lab.nr WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.s_ne COUNT_WINDOW(3) FROM lab.ne
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
  INTO lab.ne_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_nl SESSION(ts, 3s) FROM lab.nl PARTITION BY tbname
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  INTO lab.nl_out OUTPUT_SUBTABLE(concat('r_', tbname))
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_nd EVENT_WINDOW(START WITH temp >= 80 END WITH temp < 60) FROM lab.nd
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
  INTO lab.nd_out
  AS SELECT _twstart AS ts, count(*) AS n, max(temp) AS hi FROM %%trows
;
CREATE STREAM lab.s_nk COUNT_WINDOW(2) FROM lab.nk
  STREAM_OPTIONS(FILL_HISTORY_FIRST)
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  NOTIFY_OPTIONS(NOTIFY_HISTORY)
  INTO lab.nk_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_nj COUNT_WINDOW(2) FROM lab.nj
  STREAM_OPTIONS(FILL_HISTORY_FIRST)
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  INTO lab.nj_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_na INTERVAL(10s) SLIDING(10s) FROM lab.na
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
  INTO lab.na_out
  AS SELECT _twstart AS ts, count(*) AS n, max(temp) AS hi FROM %%trows
;
CREATE STREAM lab.s_nq SESSION(ts, 5s) FROM lab.nq
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
  INTO lab.nq_out
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_nn_hold COUNT_WINDOW(2) FROM lab.nn
  NOTIFY('ws://127.0.0.1:9/nobody') ON (WINDOW_CLOSE)
  NOTIFY_OPTIONS(ON_FAILURE_PAUSE)
  INTO lab.nn_hold
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_nn_drop COUNT_WINDOW(2) FROM lab.nn
  NOTIFY('ws://127.0.0.1:9/nobody') ON (WINDOW_CLOSE)
  INTO lab.nn_drop
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_nh SESSION(ts, 10s) FROM lab.nh
  NOTIFY("ws://localhost:8080/notify") ON (WINDOW_OPEN)
  INTO lab.nh_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_ng PERIOD(1s)
  NOTIFY('ws://localhost:8080/notify')
  INTO lab.ng_out
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n, sum(v) AS total FROM lab.ng
;
CREATE STREAM lab.s_nb SESSION(ts, 5s) FROM lab.nb
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
;
CREATE STREAM lab.s_nf SLIDING(1m) FROM lab.nf
  NOTIFY('ws://localhost:8080/notify')
  INTO lab.nf_out
  AS SELECT _tcurrent_ts AS ts, count(*) AS n FROM lab.nf WHERE ts >= _tcurrent_ts - 1m AND ts < _tcurrent_ts
;
CREATE STREAM lab.s_nc STATE_WINDOW(st) FROM lab.nc
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
  INTO lab.nc_out
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_np EVENT_WINDOW(START WITH v > 50 END WITH v <= 50) TRUE_FOR(3s) FROM lab.np
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
  INTO lab.np_out
  AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_nm COUNT_WINDOW(2) FROM lab.nm
  NOTIFY('ws://127.0.0.1:9/nobody', 'ws://localhost:8080/notify') ON (WINDOW_CLOSE)
  INTO lab.nm_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_ni COUNT_WINDOW(2) FROM lab.ni
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE) WHERE total >= 10
  INTO lab.ni_out
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_ob INTERVAL(10s) SLIDING(10s) FROM lab.ob PARTITION BY zone
  INTO lab.ob_out
  AS SELECT _twstart AS ts, count(*) AS n, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_od COUNT_WINDOW(2) FROM lab.od PARTITION BY tbname
  STREAM_OPTIONS(PRE_FILTER(live = 1))
  INTO lab.od_out OUTPUT_SUBTABLE(concat('o_', tbname))
  AS SELECT _twstart AS ts, sum(v) AS total FROM %%trows
;
CREATE STREAM lab.s_ok1 STATE_WINDOW(v) FROM lab.st PARTITION BY k, tbname INTO lab.ok1 AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 EVENT_WINDOW(START WITH v > 1 END WITH v < 1) FROM lab.st PARTITION BY tbname INTO lab.ok2 AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 COUNT_WINDOW(1) FROM lab.nt NOTIFY('ws://localhost:8080/notify') ON (WINDOW_CLOSE)
;
CREATE STREAM lab.s_ok INTERVAL(1m) SLIDING(1m) FROM lab.st PARTITION BY tbname
  INTO lab.ok_out
  AS SELECT _twstart AS ts, %%1 AS t, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok2 STATE_WINDOW(v, 2) TRUE_FOR(1s) FROM lab.nt INTO lab.ok2 AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_ok3 COUNT_WINDOW(2, 2, v, f) FROM lab.nt INTO lab.ok3 AS SELECT _twstart AS ts, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_a COUNT_WINDOW(2, a) FROM lab.probe
  INTO lab.a_out
  AS SELECT _twstart AS ts, _twend AS te, sum(a) AS s FROM lab.probe WHERE ts >= _twstart AND ts <= _twend
;
CREATE STREAM lab.s_crate COUNT_WINDOW(2) FROM lab.crate PARTITION BY tbname
  INTO lab.crate_out
  AS SELECT _twstart AS ts, _twend AS te, %%tbname AS t, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_tin COUNT_WINDOW(4, 2) FROM lab.tin
  INTO lab.tin_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n, sum(v) AS s FROM %%trows
;
CREATE STREAM lab.s_boiler EVENT_WINDOW(START WITH v >= 10 END WITH v < 5) FROM lab.boiler
  INTO lab.boiler_out
  AS SELECT _twstart AS ts, _twend AS te, _twduration AS d, _twrownum AS rn, count(*) AS n, max(v) AS m FROM %%trows
;
CREATE STREAM lab.s_fence EVENT_WINDOW(START WITH v = 1 END WITH v = 0) FROM lab.fence
  NOTIFY('ws://localhost:8080/notify') ON (WINDOW_OPEN|WINDOW_CLOSE)
;
CREATE STREAM lab.s_truck EVENT_WINDOW(START WITH v > 100 END WITH v <= 100) FROM lab.truck
  INTO lab.truck_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n, count(v) AS m FROM %%trows
;
CREATE STREAM lab.s_lathe EVENT_WINDOW(START WITH v > 10 END WITH w = 1) FROM lab.lathe
  INTO lab.lathe_out
  AS SELECT _twstart AS ts, _twend AS te, _twduration AS d, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_smoke EVENT_WINDOW(START WITH v > 0 END WITH v < 0) TRUE_FOR(3s) FROM lab.smoke
  INTO lab.smoke_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_loom INTERVAL(10s, 3s) SLIDING(10s) FROM lab.loom
  INTO lab.loom_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM lab.loom WHERE ts >= _twstart AND ts < _twend
;
CREATE STREAM lab.ok_a PERIOD(10a) INTO lab.o_a AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.src
;
CREATE STREAM lab.ok_b PERIOD(3650d) INTO lab.o_b AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.src
;
CREATE STREAM lab.ok_c PERIOD(1d, 23h) INTO lab.o_c AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.src
;
CREATE STREAM lab.s_lamp PERIOD(3s)
  INTO lab.lamp_out
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts,
            cast(_tlocaltime AS BIGINT) - cast(_tprev_localtime AS BIGINT) AS back,
            cast(_tnext_localtime AS BIGINT) - cast(_tlocaltime AS BIGINT) AS ahead,
            count(*) AS n
     FROM lab.lamp
;
CREATE STREAM lab.s_bell PERIOD(2s) FROM lab.idle
  NOTIFY('ws://localhost:8080/notify')
;
CREATE STREAM lab.s_pond PERIOD(2s, 500a)
  INTO lab.pond_out
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, count(*) AS n FROM lab.pond
;
CREATE STREAM lab.s_box PERIOD(2s) FROM lab.box PARTITION BY tbname
  INTO lab.box_out
  AS SELECT cast(_tlocaltime/1000000 AS TIMESTAMP) AS ts, %%tbname AS tb, count(*) AS n, sum(v) AS s FROM %%tbname
;
CREATE STREAM lab.s_bike SESSION(ts, 5s) FROM lab.bike PARTITION BY depot
  STREAM_OPTIONS(WATERMARK(10s))
  INTO lab.bike_out
  AS SELECT _twstart AS ts, _twend AS te, %%1 AS g, count(*) AS n FROM lab.bike WHERE depot = %%1 AND ts >= _twstart AND ts <= _twend
;
CREATE STREAM lab.s_sluice SLIDING(7h) FROM lab.sluice
  INTO lab.sluice_out
  AS SELECT _tcurrent_ts AS ts, _tprev_ts AS pv, _tnext_ts AS nx, count(*) AS n FROM lab.sluice WHERE ts > _tprev_ts AND ts <= _tcurrent_ts
;
CREATE STREAM lab.s_kiln SLIDING(10s, 2s) FROM lab.kiln
  INTO lab.kiln_out
  AS SELECT _tcurrent_ts AS ts, _tprev_ts AS pv, _tnext_ts AS nx, count(*) AS n FROM lab.kiln WHERE ts <= _tcurrent_ts
;
CREATE STREAM lab.s_ship SLIDING(10s) FROM lab.ship PARTITION BY tbname
  INTO lab.ship_out
  AS SELECT _tcurrent_ts AS ts, %%tbname AS tb, count(*) AS n FROM %%tbname WHERE ts > _tprev_ts AND ts <= _tcurrent_ts
;
CREATE STREAM lab.s_ext0 STATE_WINDOW(st, 0) FROM lab.hoist
  INTO lab.ext0_out
  AS SELECT _twstart AS ts, _twend AS te, _twduration AS d, count(*) AS n FROM lab.hoist WHERE ts >= _twstart AND ts <= _twend
;
CREATE STREAM lab.s_fan STATE_WINDOW(st) FROM lab.fan PARTITION BY tbname
  INTO lab.fan_out
  AS SELECT _twstart AS ts, _twend AS te, first(st) AS st, count(*) AS n FROM %%trows
;
CREATE STREAM lab.s_siren STATE_WINDOW(st) TRUE_FOR(4s) FROM lab.siren
  STREAM_OPTIONS(EVENT_TYPE(WINDOW_OPEN))
  INTO lab.siren_out
  AS SELECT _twstart AS ts, count(*) AS n FROM lab.siren WHERE ts = _twstart
;
CREATE STREAM lab.s_alarm STATE_WINDOW(st) TRUE_FOR(3s) FROM lab.alarm
  INTO lab.alarm_out
  AS SELECT _twstart AS ts, _twend AS te, count(*) AS n FROM %%trows
;
CREATE TABLE lab.src (ts TIMESTAMP, v DOUBLE)
;
CREATE TABLE lab.src (ts TIMESTAMP, v INT)
;
CREATE TABLE lab.src (ts TIMESTAMP, v INT, name VARCHAR(16))
;
CREATE TABLE lab.bell (ts TIMESTAMP, st INT, v INT)
;
CREATE TABLE lab.u1 USING lab.unit TAGS (1)
;
CREATE TABLE lab.t (ts TIMESTAMP, v INT, w DOUBLE)
;
CREATE TABLE lab.t (ts TIMESTAMP, a INT, b DOUBLE, c VARCHAR(8))
;
CREATE TABLE lab.d1 USING lab.st TAGS ('{"site":"north","floor":5,"spare":true}')
;
CREATE TABLE lab.d1 USING lab.st TAGS ('n')
;
CREATE TABLE lab.d1 USING lab.st TAGS ('n', 1)
;
CREATE TABLE lab.d3 USING lab.st TAGS ('s', NULL)
;
CREATE TABLE lab.t (ts TIMESTAMP, v DOUBLE, s VARCHAR(16))
;
CREATE TABLE lab.ip1 USING lab.ip TAGS (1, 1)
;
CREATE TABLE lab.ih_out (ts TIMESTAMP, n BIGINT, mean DOUBLE)
;
CREATE TABLE lab.ii_old USING lab.ii_out TAGS (0, 'hand')
;
CREATE TABLE lab.w_float (ts TIMESTAMP, n BIGINT, mean FLOAT)
;
CREATE TABLE lab.w_few (ts TIMESTAMP, n BIGINT)
;
CREATE TABLE lab.w_many (ts TIMESTAMP, n BIGINT, mean DOUBLE, more INT)
;
CREATE TABLE lab.im (ts TIMESTAMP, a TINYINT, b INT, c FLOAT, d BOOL)
;
CREATE TABLE lab.il (ts TIMESTAMP, happened TIMESTAMP, v INT)
;
CREATE TABLE lab.ic1 USING lab.ic TAGS ('north', 1, 'x')
;
CREATE TABLE lab.ka (ts TIMESTAMP, amps FLOAT, tag1 VARCHAR(8))
;
CREATE TABLE lab.nt (ts TIMESTAMP, v INT, f FLOAT)
;
CREATE TABLE lab.robot (ts TIMESTAMP, job VARCHAR(8), busy BOOL)
;
CREATE VTABLE lab.vc1 (st FROM lab.ph1.st) USING lab.virt TAGS (1)
;
CREATE VTABLE lab.pair (ts TIMESTAMP, x INT FROM lab.va.x, y INT FROM lab.vb.y)
;
DELETE FROM lab.sack WHERE ts = '2026-01-01 00:00:30.000'
;
DELETE FROM lab.gear WHERE ts >= '2026-01-01 00:00:00.000' AND ts <= '2026-01-01 00:00:01.000'
;
DROP DATABASE lab_b
;
DROP STREAM lab.s_xc
;
DROP STREAM IF EXISTS lab.s_xc
;
DROP TABLE lab.u1
;
INSERT INTO lab.src VALUES ('2026-01-01 00:00:10.000', 10.0) ('2026-01-01 00:00:20.000', 10.9) ('2026-01-01 00:00:30.000', 10.4) ('2026-01-01 00:00:40.000', 11.3) ('2026-01-01 00:00:50.000', 10.2) ('2026-01-01 00:01:00.000', 11.1) ('2026-01-01 00:01:10.000', 10.6) ('2026-01-01 00:01:20.000', 11.5) ('2026-01-01 00:01:30.000', 10.1) ('2026-01-01 00:01:40.000', 10.8) ('2026-01-01 00:01:50.000', 10.3) ('2026-01-01 00:02:00.000', 11.2) ('2026-01-01 00:02:10.000', 10.5) ('2026-01-01 00:02:20.000', 11.0) ('2026-01-01 00:02:30.000', 95.0) ('2026-01-01 00:02:40.000', 10.7) ('2026-01-01 00:02:50.000', 11.4) ('2026-01-01 00:03:00.000', 10.05) ('2026-01-01 00:03:10.000', 10.95) ('2026-01-01 00:03:20.000', 10.45) ('2026-01-01 00:03:30.000', 11.35) ('2026-01-01 00:03:40.000', 10.25)
;
INSERT INTO lab.src VALUES ('2026-01-01 00:05:01.000', 11)
;
INSERT INTO lab.src VALUES ('2026-01-01 00:00:10.000', 1, 'a') ('2026-01-01 00:00:20.000', 2, 'b')
;
INSERT INTO lab.bell VALUES ('2026-01-01 00:00:00.000', 1, 10) ('2026-01-01 00:00:02.000', 1, 20) ('2026-01-01 00:00:04.000', 2, 5) ('2026-01-01 00:00:06.000', 2, 6) ('2026-01-01 00:00:08.000', 2, 7) ('2026-01-01 00:00:10.000', 3, 1)
;
INSERT INTO lab.drill VALUES ('2026-01-01 00:00:06.000', 1, 1)
;
INSERT INTO lab.d1 VALUES ('2026-01-01 15:15:01.000', 0, 'a', false) ('2026-01-01 15:15:02.000', 1, '0', true) ('2026-01-01 15:15:03.000', 5, '5', false) ('2026-01-01 15:15:04.000', 3, 'b', false) ('2026-01-01 15:15:05.000', 0, '1', false) ('2026-01-01 15:15:06.000', 2, 'd', true)
;
INSERT INTO lab.t VALUES ('2026-01-01 00:00:03.000', 7, 3.5, 'z') ('2026-01-01 00:00:01.000', NULL, 1.5, NULL) ('2026-01-01 00:00:02.000', 5, NULL, 'x') ('2026-01-01 00:00:04.000', NULL, 4.5, NULL)
;
INSERT INTO lab.t VALUES (now - 3d, 1) (NOW() - 1h, 2) (now - 1m, 4) (now() + 1h, 8)
;
INSERT INTO lab.t VALUES ('2026-01-07 13:45:59.123', 3.9, '42')
;
INSERT INTO lab.t VALUES (1767225600000, 1) (1767225600000 + 1s, 2) ('2026-01-01 00:00:02', 3) ('2026-01-01T00:00:03.500Z', 4) (1767225600000 + 1h, 5) (1767225600000 + 1w, 6)
;
INSERT INTO lab.im VALUES ('2026-01-01 00:00:01.000', 5, 100, 1.5, true) ('2026-01-01 00:00:02.000', -7, 50,
2.5, false)
;
INSERT INTO lab.il VALUES ('2026-01-01 00:00:01.000', NULL, 1) ('2026-01-01 00:00:02.000',
'2026-01-01 00:01:40.000', 2) ('2026-01-01 00:00:03.000', NULL, 3) ('2026-01-01 00:00:04.000', NULL, 4)
('2026-01-01 00:00:05.000', '2026-01-01 00:01:41.000', 5) ('2026-01-01 00:00:06.000', '2026-01-01 00:01:42.000',
NULL)
;
INSERT INTO lab.og1 (ts, v, fresh) VALUES ('2026-01-01 00:00:04.000', 4, 0.5)
;
INSERT INTO lab.og1 (ts, v, fresh) VALUES ('2026-01-01 00:00:05.000', 5, 1.5) ('2026-01-01 00:00:06.000', 6,
2.5)
;
INSERT INTO lab.oa3 USING lab.oa TAGS (3) VALUES ('2026-01-01 00:00:01.000', 100) ('2026-01-01 00:00:05.000',
200)
;
INSERT INTO lab.probe VALUES ('2026-01-01 00:01:00.000', 1, NULL) ('2026-01-01 00:01:01.000', NULL, 5) ('2026-01-01 00:01:02.000', 2, NULL) ('2026-01-01 00:01:03.000', NULL, NULL) ('2026-01-01 00:01:04.000', 3, NULL) ('2026-01-01 00:01:05.000', 4, 1) ('2026-01-01 00:01:06.000', NULL, 2)
;
INSERT INTO lab.robot VALUES ('2026-01-01 00:01:00.000', 'run', true) ('2026-01-01 00:01:02.000', 'run', true) ('2026-01-01 00:01:04.000', 'RUN', true) ('2026-01-01 00:01:06.000', '', false) ('2026-01-01 00:01:08.000', 'run', false) ('2026-01-01 00:01:10.000', 'run', true)
;
RECALCULATE STREAM lab.s_ok FROM '2026-01-01 00:00:00.000' TO '2026-01-01 00:00:05.000'
;
RECALCULATE STREAM lab.s_bin FROM '2026-01-01 00:00:00.500'
;
SELECT _wstart, _wend, count(*), max(v) FROM lab.src ANOMALY_WINDOW(v, 'algo=ksigma,wncheck=0')
;
SHOW lab.STREAMS
;
START STREAM IGNORE UNTREATED lab.s_xf
;
START STREAM lab.s_xe
;
START STREAM IF EXISTS lab.nothing
;
START STREAM IF EXISTS IGNORE UNTREATED lab.nothing
;
STOP STREAM lab.s_xd2
;
STOP STREAM IF EXISTS lab.nothing
;
