-- Finds the holds of one closed period that overlapped: the batch form of `tierlock reconcile`.
-- Each ${word} is filled in by tierlock.flink.Reconcile, or by envsubst for Flink's own SQL client; README.md lists
-- them. Times are whole microseconds since 1970, as events carry them. Everything is kept apart by partition, as the Go
-- job keeps it: all events of a key lie in one.

CREATE TEMPORARY FUNCTION tierlock_micros AS 'tierlock.flink.MicrosFunction';
CREATE TEMPORARY FUNCTION tierlock_time AS 'tierlock.flink.TimeFunction';
CREATE TEMPORARY FUNCTION tierlock_holds AS 'tierlock.flink.HoldsFunction';
CREATE TEMPORARY FUNCTION tierlock_findings AS 'tierlock.flink.FindingsFunction';

-- The trail as it lies in Kafka, up to what is there when the job starts. What is no JSON is passed over.
CREATE TEMPORARY TABLE trail (
  v INT, `type` STRING, id STRING, producer STRING, epoch BIGINT, seq BIGINT, `prev` BIGINT,
  chain STRING, `key` STRING, holder STRING, tier STRING, store STRING, token DECIMAL(20, 0),
  how STRING, outcome STRING, granted_at STRING, ended_at STRING,
  ttl_ms BIGINT, max_hold_ms BIGINT, clock_error_us BIGINT,
  business ROW<`type` STRING, id STRING, op STRING, delta BIGINT, `before` BIGINT, `after` BIGINT>,
  `at` STRING, sealed BIGINT,
  `partition` INT METADATA VIRTUAL,
  `offset` BIGINT METADATA VIRTUAL,
  appended TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL
) WITH (
  'connector' = 'kafka', 'topic' = '${topic}', 'properties.bootstrap.servers' = '${brokers}',
  ${startup}, 'scan.bounded.mode' = 'latest-offset',
  'format' = 'json', 'json.ignore-parse-errors' = 'true'${kafka}
);

-- What is an event, by the rules that the Go job refuses others by.
CREATE TEMPORARY VIEW events AS
SELECT * FROM (
  SELECT
    `partition`, `offset`, LEAST(tierlock_micros(appended), CAST(${as_of_us} AS BIGINT)) AS heard,
    `type`, producer, epoch, seq, `key`, holder, tier, how, sealed,
    COALESCE(chain, '') AS chain, COALESCE(store, '') AS store, COALESCE(outcome, '') AS outcome,
    CASE WHEN token BETWEEN 1 AND 9007199254740992 THEN CAST(token AS BIGINT) ELSE 0 END AS token,
    tierlock_micros(granted_at) AS granted, tierlock_micros(ended_at) AS ended, tierlock_micros(`at`) AS written,
    COALESCE(ttl_ms, 0) * 1000 AS ttl, COALESCE(max_hold_ms, 0) * 1000 AS max_hold, COALESCE(clock_error_us, 0) AS clock_error,
    COALESCE(business.`type` <> '', FALSE) OR COALESCE(business.id <> '', FALSE) OR COALESCE(business.op <> '', FALSE)
      OR COALESCE(business.delta <> 0, FALSE) OR business.`before` IS NOT NULL OR business.`after` IS NOT NULL AS business,
    COALESCE(business.`type`, '') AS business_type, COALESCE(business.id, '') AS business_id, business.`before` AS version_before,
    `type` IN ('hello', 'heartbeat', 'seal', 'gap') AS marker
  FROM trail
  WHERE v = 1 AND producer <> '' AND epoch > 0 AND seq > 0 AND COALESCE(`prev`, 0) BETWEEN 0 AND seq - 1
    AND id = producer || '/' || CAST(epoch AS STRING) || '/' || CAST(seq AS STRING)
) AS e
WHERE marker AND written IS NOT NULL
  OR `type` IN ('acquire', 'end', 'optimistic') AND granted IS NOT NULL AND holder <> ''
    AND tier IN ('shared', 'optimistic', 'local', 'bypass') AND REGEXP(`key`, '^[a-zA-Z0-9_:.-]{1,256}$')
    AND ttl BETWEEN 0 AND 1000000000000000 AND max_hold BETWEEN 0 AND 1000000000000000 AND clock_error BETWEEN 0 AND 1000000000000000
    AND (`type` <> 'end' OR ended IS NOT NULL AND how IN ('released', 'lost', 'expired', 'forced'));

-- Each event once: forwarders send again what they are not sure of.
CREATE TEMPORARY VIEW told AS
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY `partition`, producer, epoch, seq ORDER BY `offset`) AS copy FROM events
) AS c
WHERE copy = 1;

-- Epochs that are over, with their last sign of life: nobody renewed a hold after that.
CREATE TEMPORARY VIEW gone AS
SELECT `partition`, producer, epoch, sign FROM (
  SELECT *,
    MAX(epoch) OVER (PARTITION BY `partition`, producer) AS newest,
    MAX(heard) OVER (PARTITION BY `partition`, producer) AS last_heard
  FROM (
    SELECT `partition`, producer, epoch, MAX(heard) AS heard,
      MAX(CASE WHEN marker THEN written ELSE COALESCE(ended, granted) END) AS sign,
      MAX(CASE WHEN `type` = 'seal' AND sealed = epoch THEN 1 ELSE 0 END) AS closed
    FROM told GROUP BY `partition`, producer, epoch
  ) AS e
) AS p
WHERE epoch < newest OR closed = 1 OR last_heard <= CAST(${as_of_us} AS BIGINT) - CAST(${idle_us} AS BIGINT);

-- One row a hold. Work without a lock counts where it committed.
CREATE TEMPORARY VIEW holds AS
SELECT t.`partition`, h.* FROM (
  SELECT `partition`, `key`, holder, ARRAY_AGG(ROW(
    `type`, producer, epoch, seq, `offset`, chain, tier, store, token, granted, ended, ttl, max_hold, clock_error,
    how, outcome, business, business_type, business_id, version_before)) AS events
  FROM told
  WHERE NOT marker AND tier NOT IN (${ignore}) AND (tier <> 'optimistic' OR outcome = 'committed' AND ended IS NOT NULL)
  GROUP BY `partition`, `key`, holder
) AS t
CROSS JOIN LATERAL TABLE(tierlock_holds(t.`key`, t.holder, t.events)) AS h(
  event, chain, `key`, holder, tier, store, token, producer, epoch, acquire_seq, end_seq, granted, ended, latest,
  ttl, max_hold, clock_error, how, outcome, business_type, business_id, version_before);

-- The latest end. A holder whose end nobody told kept the lock for its ttl, or, where it renewed, up to max_hold, but
-- not beyond a ttl after its process last gave a sign; whether the holder of a lock that was lost has noticed is not known.
CREATE TEMPORARY VIEW settled AS
SELECT *, granted - clock_margin AS opens, latest + clock_margin AS closes FROM (
  SELECT h.`partition`, h.event, h.chain, h.`key`, h.holder, h.tier, h.store, h.token, h.producer, h.epoch, h.acquire_seq, h.end_seq,
    h.granted, h.ended, h.ttl, h.max_hold, h.clock_error, h.how, h.outcome,
    h.business_type, h.business_id, h.version_before,
    CASE WHEN h.clock_error <= 0 THEN CAST(${default_error_us} AS BIGINT) ELSE h.clock_error + 1 END AS clock_margin,
    GREATEST(h.granted, CASE
      WHEN h.ended IS NOT NULL AND h.how IN ('lost', 'expired') THEN h.ended + h.ttl
      WHEN h.ended IS NOT NULL THEN h.ended
      WHEN h.ttl = 0 AND h.max_hold = 0 THEN h.granted + 600000000
      WHEN h.max_hold <= h.ttl THEN h.granted + h.ttl
      WHEN g.epoch IS NOT NULL THEN LEAST(GREATEST(h.granted + h.ttl, g.sign + h.ttl), h.granted + h.max_hold)
      ELSE h.granted + h.max_hold
    END) AS latest
  FROM holds AS h
  LEFT JOIN gone AS g ON g.`partition` = h.`partition` AND g.producer = h.producer AND g.epoch = h.epoch
) AS s;

-- Gaps and islands. A hold that opens after everything before it has closed begins an island: no two holds of different
-- islands can be a pair, whatever the clocks.
CREATE TEMPORARY VIEW islands AS
SELECT *, SUM(begins) OVER (
  PARTITION BY `partition`, `key` ORDER BY opens, event, granted ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS island
FROM (
  SELECT *, CASE WHEN opens <= MAX(closes) OVER (
    PARTITION BY `partition`, `key` ORDER BY opens, event, granted ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS begins
  FROM settled
) AS b;

CREATE TEMPORARY TABLE findings (
  id STRING, digest STRING, kind STRING, state STRING, chain STRING, `key` STRING, certain BOOLEAN,
  causes ARRAY<STRING>, members ARRAY<STRING>, pairs BIGINT, certain_pairs BIGINT, at_risk_pairs BIGINT, depth INT, part INT, carried INT,
  `from` STRING, `to` STRING
) WITH (
  ${sink}
);

-- Which holds of an island are pairs is the rule's to say: not those of one store that gave the key from one to the
-- other, not those that one process has put in order. So an island may be several groups, or none.
INSERT INTO findings
SELECT f.id, f.digest, 'overlap', f.state, f.chain, f.`key`, f.certain, f.causes, f.members, f.pairs, f.certain_pairs, f.at_risk_pairs, f.depth, f.part, f.carried,
  tierlock_time(f.from_us), tierlock_time(f.to_us)
FROM (
  SELECT `partition`, `key`, island, ARRAY_AGG(ROW(
    event, chain, `key`, holder, tier, store, token, producer, epoch, acquire_seq, end_seq, granted, ended, latest,
    ttl, max_hold, clock_error, how, outcome, business_type, business_id, version_before)) AS holds
  FROM islands
  GROUP BY `partition`, `key`, island
  HAVING COUNT(*) > 1
) AS i
CROSS JOIN LATERAL TABLE(tierlock_findings(CAST(${default_error_us} AS BIGINT), ${group}, i.holds)) AS f(
  id, digest, state, chain, `key`, certain, causes, members, pairs, certain_pairs, at_risk_pairs, depth, part, carried, from_us, to_us)
WHERE f.from_us < CAST(${to_us} AS BIGINT) AND f.to_us >= CAST(${from_us} AS BIGINT);
