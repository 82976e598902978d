-- Turn decided slots into Runs and move their schedules on, as one statement.
-- A schedule is moved only if it is still as it was when the decision was made, nobody holds its
-- row, and the term that decided is still the current one. Runs are born only for moved schedules.
-- Answers one row per Run, and one without a Run per moved schedule.
WITH decided AS MATERIALIZED (
  SELECT * FROM JSON_TO_RECORDSET(%(moves)s::json) AS d(
    id bigint, seen_next timestamptz, seen_last timestamptz, seen_version int,
    next_slot timestamptz, watermark timestamptz, job text, queue text, priority smallint,
    max_attempts int, timeout_seconds float8, lease_seconds float8, gate text, capacity int,
    overflow text, input jsonb)
), free AS MATERIALIZED (
  SELECT s.id FROM sync_scheduler_schedule s JOIN decided d ON d.id = s.id
  WHERE s.next_run_at = d.seen_next AND s.version = d.seen_version AND s.enabled
    AND s.last_slot IS NOT DISTINCT FROM d.seen_last
    AND EXISTS (
      SELECT 1 FROM sync_scheduler_leader l
      WHERE l.namespace = %(namespace)s AND l.epoch = %(epoch)s)
  ORDER BY s.id
  FOR UPDATE OF s SKIP LOCKED
), moved AS (
  UPDATE sync_scheduler_schedule s
  SET next_run_at = d.next_slot, last_slot = d.watermark,
      failures = 0, retry_dispatch_at = NULL, error = ''
  FROM decided d JOIN free ON free.id = d.id
  WHERE s.id = d.id
  RETURNING s.id, s.name, COALESCE(d.input, s.input) AS input, d.job, d.queue, d.priority,
            d.max_attempts, d.timeout_seconds, d.lease_seconds, d.gate, d.capacity, d.overflow
), roomy AS MATERIALIZED (
  -- Backfills that only wait must not make regular slots look like overlaps.
  SELECT moved.*, CASE WHEN capacity IS NOT NULL THEN capacity - (
      SELECT COUNT(*) FROM sync_scheduler_run a
      WHERE a.schedule_id = moved.id AND a.status IN ('submitted', 'running')
        AND (a.status = 'running' OR a.trigger <> 'backfill')
    ) END AS room
  FROM moved
), planned AS (
  SELECT p.id, p.schedule_id, p.slot, p.key, p.dedupe, p.run_at, p.status,
         COALESCE(p.reason, '') AS reason, COALESCE(p.error, '') AS error,
         COALESCE(p.meta, '{}') AS meta, p.ordinal > roomy.room AS is_too_many,
         roomy.name AS schedule_name, roomy.input, roomy.job, roomy.queue, roomy.priority,
         roomy.max_attempts, roomy.timeout_seconds, roomy.lease_seconds, roomy.gate,
         roomy.capacity, roomy.overflow
  FROM JSON_TO_RECORDSET(%(slots)s::json) AS p(
    id uuid, schedule_id bigint, slot timestamptz, key text, dedupe uuid, run_at timestamptz,
    status text, reason text, error text, meta jsonb, ordinal int)
  JOIN roomy ON roomy.id = p.schedule_id
), settled AS (
  SELECT planned.*,
         CASE WHEN is_too_many THEN 'skipped' ELSE status END AS final_status,
         CASE WHEN is_too_many THEN overflow ELSE reason END AS final_reason
  FROM planned
), born AS (
  INSERT INTO sync_scheduler_run (
    id, namespace, job, queue, priority, input, key, dedupe, schedule_id, schedule_name, slot,
    trigger, status, attempt, max_attempts, run_at, submitted_at, finished_at, error,
    progress_message, node, reason, meta, timeout_seconds, lease_seconds, token, crashes, suspect,
    guard, gate, epoch, depth)
  SELECT
    id, %(namespace)s, job, queue, priority, input, key, dedupe, schedule_id, schedule_name, slot,
    'slot', final_status, 0, max_attempts, run_at, CLOCK_TIMESTAMP(),
    CASE WHEN final_status <> 'submitted' THEN CLOCK_TIMESTAMP() END, error,
    '', '', final_reason, meta, timeout_seconds, lease_seconds, 0, 0, FALSE,
    CASE WHEN capacity IS NOT NULL THEN schedule_id END, gate, %(epoch)s, 0
  FROM settled
  ON CONFLICT DO NOTHING
  RETURNING id, schedule_id, status, reason
)
-- Not a join of the two: their sizes are guessed as one row, and a nested loop would follow.
SELECT schedule_id, id, status, reason FROM born
UNION ALL
SELECT id, NULL, NULL, NULL FROM moved
