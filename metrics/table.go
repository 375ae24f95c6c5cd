package metrics

// Kind says how a metric's value moves.
type Kind uint8

// The kinds.
const (
	Counter   Kind = iota + 1 // only rises; its name ends in _total
	Gauge                     // rises and falls
	Histogram                 // counts per bucket
)

// String returns the word Prometheus uses in a TYPE line.
func (k Kind) String() string {
	switch k {
	case Counter:
		return "counter"
	case Gauge:
		return "gauge"
	case Histogram:
		return "histogram"
	}
	return "invalid"
}

// Metric is one row of the table.
type Metric struct {
	Name    string
	Kind    Kind
	Help    string
	Labels  []string  // closed sets only
	Buckets []float64 // histograms: upper bounds; every threshold of an alert is one of them
}

// The names. Everything else about a metric stands in [Table].
const (
	acquireDuration = "tierlock_acquire_duration_seconds"
	acquires        = "tierlock_acquires_total"
	releases        = "tierlock_releases_total"
	renewals        = "tierlock_renewals_total"
	holdRatio       = "tierlock_hold_to_ttl_ratio"

	waitDuration   = "tierlock_wait_duration_seconds"
	holdDuration   = "tierlock_hold_duration_seconds"
	unlockFailures = "tierlock_unlock_failures_total"
	handOvers      = "tierlock_hand_overs_total"
	losses         = "tierlock_lost_total"
	settled        = "tierlock_settled_total"
	heldLocks      = "tierlock_held_locks"
	inDoubt        = "tierlock_in_doubt_entries"
	spared         = "tierlock_spared_total"
	hookPanics     = "tierlock_hook_panics_total"

	tierActive  = "tierlock_tier_active"
	healthState = "tierlock_health_state"
	transitions = "tierlock_transitions_total"
	dwell       = "tierlock_health_dwell_seconds"
	observed    = "tierlock_observed_total"
	replaced    = "tierlock_store_replacements_total"
	occupancy   = "tierlock_wire_occupancy_ratio"
	wireShare   = "tierlock_wire_share_ratio"

	switchVersion = "tierlock_switch_version"
	switchMode    = "tierlock_switch_mode"
	switchUntil   = "tierlock_switch_until_timestamp_seconds"
	switchOrders  = "tierlock_switch_orders_total"
	switchFetches = "tierlock_switch_fetches_total"
	switchDryRun  = "tierlock_switch_dry_run_calls"
	policyInfo    = "tierlock_policy_info"

	spoolRecords  = "tierlock_spool_records"
	spoolBytes    = "tierlock_spool_bytes"
	spoolQuota    = "tierlock_spool_quota_bytes"
	spoolOldest   = "tierlock_spool_oldest_unsent_age_seconds"
	spoolWritable = "tierlock_spool_writable"
	spoolFsync    = "tierlock_spool_fsync_duration_seconds"
	spoolShed     = "tierlock_spool_shed_total"
	spoolGaps     = "tierlock_spool_gaps_total"
	spoolDamaged  = "tierlock_spool_damaged_total"
	spoolTorn     = "tierlock_spool_torn_bytes"
	eventsWritten = "tierlock_events_recorded_total"
	eventsSent    = "tierlock_events_sent_total"
	eventsFailed  = "tierlock_events_send_failures_total"
	eventsDead    = "tierlock_events_dead_total"

	reconcileRecords   = "tierlock_reconcile_records_total"
	reconcileMalformed = "tierlock_reconcile_malformed_total"
	reconcileFindings  = "tierlock_reconcile_findings"
	reconcileRepairs   = "tierlock_reconcile_repairs_total"
	reconcileTimeouts  = "tierlock_reconcile_hook_timeouts_total"
	reconcileStores    = "tierlock_reconcile_store_timeouts_total"
	reconcileWaiting   = "tierlock_reconcile_waiting_findings"
	reconcilePending   = "tierlock_reconcile_pending_approvals"
	reconcileOpen      = "tierlock_reconcile_open_holds"
	reconcileMark      = "tierlock_reconcile_watermark_timestamp_seconds"

	buildInfo = "tierlock_build_info"
)

// latency covers a good answer (under 1 ms) to the end of the longest wait (2 s). 15 ms
// and 50 ms are alert thresholds, 200 ms is the attempt timeout and 220 ms what a caller
// may see of it, so each is a bound of its own.
func latency() []float64 {
	return []float64{.00025, .0005, .001, .002, .005, .01, .015, .025, .05, .1, .2, .22, .3, .5, 1, 2}
}

// Table returns every metric there is, in the order of docs/metrics.md. The slice is the
// caller's.
func Table() []Metric {
	chain := []string{"chain"}
	return []Metric{
		// The five golden ones.
		{acquireDuration, Histogram, "Time from a call to its verdict, without waiting for another holder.", []string{"chain", "tier", "outcome"}, latency()},
		{acquires, Counter, "Calls that got a verdict.", []string{"chain", "tier", "outcome", "reason"}, nil},
		{releases, Counter, "Unlocks by what was left of the ttl: ok, tight (under 100 ms) or expired.", []string{"chain", "margin"}, nil},
		{renewals, Counter, "Renewals by result: ok, lost or error.", []string{"chain", "result"}, nil},
		{holdRatio, Histogram, "Time held over ttl asked for; above 1 only a renewal kept the lock.", chain, []float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 2, 5, 10, 40}},

		// Locks.
		{waitDuration, Histogram, "Time a call waited for another holder.", chain, latency()},
		{holdDuration, Histogram, "Time from grant to unlock.", []string{"chain", "tier"}, []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 15, 60, 600}},
		{unlockFailures, Counter, "Unlocks that did not give the lock back, by reason.", []string{"chain", "reason"}, nil},
		{handOvers, Counter, "Locks handed to the next call of the same process that waited for the key, with no release in between.", chain, nil},
		{spared, Counter, "Calls that were answered, or handed the lock, without a question of their own to a store whose wire is full (on_saturated: coalesce).", chain, nil},
		{losses, Counter, "Locks lost while held, by reason.", []string{"chain", "reason"}, nil},
		{settled, Counter, "Acquires in doubt that were settled afterwards, by what the store then said.", []string{"chain", "status"}, nil},
		{heldLocks, Gauge, "Locks this process holds now.", chain, nil},
		{inDoubt, Gauge, "Acquires in doubt and releases put off that are not settled yet.", nil, nil},
		{hookPanics, Counter, "Calls of the embedder's hooks that panicked; the log names them.", nil, nil},

		// Health and tier.
		{tierActive, Gauge, "1 for the tier that serves a chain on a target now (or refused), 0 for the others.", []string{"chain", "target", "tier"}, nil},
		{healthState, Gauge, "1 for the health state of a chain's target, 0 for the others.", []string{"chain", "target", "state"}, nil},
		{transitions, Counter, "Changes of health state.", []string{"chain", "target", "from", "to", "reason"}, nil},
		{dwell, Histogram, "Time spent in a health state before it was left.", []string{"chain", "state"}, []float64{.1, .5, 1, 2, 5, 10, 30, 60, 300, 1800}},
		{observed, Counter, "Calls of a chain on observe that its ladder would have answered otherwise, by the tier it would have asked.", []string{"chain", "tier", "reason"}, nil},
		{replaced, Counter, "Servers that were started anew, or took another's place: what was granted before may be forgotten.", []string{"store", "target"}, nil},
		{occupancy, Gauge, "Operations out on a target over its limit.", []string{"chain", "target"}, nil},
		{wireShare, Gauge, "Operations of one chain out on a target over its limit, abandoned ones included.", []string{"chain", "target"}, nil},

		// Switch.
		{switchVersion, Gauge, "Version of the switch document in force; 0 before the first.", nil, nil},
		{switchMode, Gauge, "1 for the mode ordered for a chain, 0 for the others.", []string{"chain", "mode"}, nil},
		{switchUntil, Gauge, "Unix time at which a chain's order ends by itself; 0 without one.", chain, nil},
		{switchOrders, Counter, "Orders that came into force or ended.", []string{"chain", "mode"}, nil},
		{switchFetches, Counter, "Answers of the switch's source: ok, or why the last good document stays in force.", []string{"result"}, nil},
		{switchDryRun, Gauge, "Calls that the dry run in force would have led to a tier (or refused), by the outcome that they got without it.", []string{"chain", "tier", "outcome"}, nil},
		{policyInfo, Gauge, "Always 1; the label is the hash of the policies in force.", []string{"hash"}, nil},

		// Spool and Kafka.
		{spoolRecords, Gauge, "Records in the spool that Kafka does not have yet.", nil, nil},
		{spoolBytes, Gauge, "Bytes the spool takes on disk.", nil, nil},
		{spoolQuota, Gauge, "Bytes the spool may take on disk.", nil, nil},
		{spoolOldest, Gauge, "Age of the oldest record that Kafka does not have yet; 0 without one.", nil, nil},
		{spoolWritable, Gauge, "1 while the spool takes records, 0 while it is full or has failed.", nil, nil},
		{spoolFsync, Histogram, "Time of one group commit, write and fsync.", nil, []float64{.0005, .001, .002, .005, .01, .015, .025, .05, .1, .25, .5, 1}},
		{spoolShed, Counter, "Events given up: note (no room in memory) or grant (the chain's policy shed).", []string{"kind"}, nil},
		{spoolGaps, Counter, "Gap markers written.", nil, nil},
		{spoolDamaged, Counter, "Events on the disk that could not be read back; a gap marker tells which.", nil, nil},
		{spoolTorn, Gauge, "Bytes cut off the spool's end at the start of the process and kept beside it.", nil, nil},
		{eventsWritten, Counter, "Events recorded: awaited (the grant waited for the disk) or noted.", []string{"kind"}, nil},
		{eventsSent, Counter, "Messages that Kafka has acknowledged, copies of markers included.", nil, nil},
		{eventsFailed, Counter, "Attempts to send that failed and will be repeated.", nil, nil},
		{eventsDead, Counter, "Events that went to the dead-letter topic.", nil, nil},

		// Reconciliation.
		{reconcileRecords, Counter, "Records read by the reconcile job.", nil, nil},
		{reconcileMalformed, Counter, "Records that were no event.", nil, nil},
		{reconcileFindings, Gauge, "Findings of the job that stand: overlaps by certainty, and gaps in the events.", []string{"certainty"}, nil},
		{reconcileRepairs, Counter, "Repairs by result: applied, failed, or unchanged, which left as much wrong as before.", []string{"result"}, nil},
		{reconcileTimeouts, Counter, "Calls of hooks that did not answer in time.", nil, nil},
		{reconcileStores, Counter, "Calls of the findings', approvals' and dead letters' stores that did not answer in time.", nil, nil},
		{reconcileWaiting, Gauge, "Findings whose check or repair is due.", nil, nil},
		{reconcilePending, Gauge, "Repairs that wait for people's approval, of the whole table: every member tells the same.", nil, nil},
		{reconcileOpen, Gauge, "Holds that are not judged yet.", nil, nil},
		{reconcileMark, Gauge, "Unix time up to which all holds are judged; 0 before the first.", nil, nil},

		{buildInfo, Gauge, "Always 1; the labels tell the build.", []string{"version", "go_version"}, nil},
	}
}
