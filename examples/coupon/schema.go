package coupon

// A claim made without a lock owns the slot of its user and coupon outright: the unique
// index lets one in and turns everybody else away, whatever they hold. Claims made under a
// lock share the slot with each other, because keeping them apart is the lock's job here,
// as it was in the shops that have no such index: that is what a bypass can break and a
// repair must mend. So an optimistic claim is never an over-claim, and two locked ones are
// only when the lock did not exclude.
const (
	takeUnlocked = `INSERT INTO claim_slots (user_id, coupon, locked) VALUES ($1, $2, 0) ON CONFLICT (user_id, coupon) DO NOTHING`
	takeLocked   = `INSERT INTO claim_slots (user_id, coupon, locked) VALUES ($1, $2, 1)
ON CONFLICT (user_id, coupon) DO UPDATE SET locked = 1 WHERE claim_slots.locked = 1`
)

// Schema is what the service needs in its database, in order; the same on SQLite and
// PostgreSQL. holder is the fingerprint of the lock a claim was made under, empty for an
// optimistic one: it joins a claim to the audit trail. withdrawn is 1 once a repair has
// taken the claim back.
func Schema() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS claim_slots (
  user_id VARCHAR(64) NOT NULL,
  coupon  VARCHAR(64) NOT NULL,
  locked  INTEGER     NOT NULL,
  PRIMARY KEY (user_id, coupon)
)`,
		`CREATE TABLE IF NOT EXISTS claims (
  id        VARCHAR(64) NOT NULL PRIMARY KEY,
  user_id   VARCHAR(64) NOT NULL,
  coupon    VARCHAR(64) NOT NULL,
  kind      VARCHAR(64) NOT NULL,
  holder    VARCHAR(16) NOT NULL,
  withdrawn INTEGER     NOT NULL DEFAULT 0
)`,
		`CREATE INDEX IF NOT EXISTS claims_of_user ON claims (user_id, coupon)`,
	}
}
