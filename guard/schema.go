package guard

// The fence table has one row per lock key: the highest token that has entered, how many
// transactions have, and which of them had no token, so that a reader of the table sees
// what was ever touched past the lock, and finds the holder in the audit trail. A key is
// at most 256 bytes of ASCII, and upper and lower case are two keys.
var schemas = map[Dialect]string{
	SQLite: `CREATE TABLE IF NOT EXISTS {table} (
  lock_key      TEXT    NOT NULL PRIMARY KEY,
  token         INTEGER NOT NULL,
  entries       INTEGER NOT NULL,
  unfenced      INTEGER NOT NULL DEFAULT 0,
  unfenced_tier TEXT    NOT NULL DEFAULT '',
  unfenced_by   TEXT    NOT NULL DEFAULT '',
  unfenced_at   TEXT,
  touched_at    TEXT    NOT NULL
)`,
	Postgres: `CREATE TABLE IF NOT EXISTS {table} (
  lock_key      TEXT        NOT NULL PRIMARY KEY,
  token         BIGINT      NOT NULL,
  entries       BIGINT      NOT NULL,
  unfenced      BIGINT      NOT NULL DEFAULT 0,
  unfenced_tier TEXT        NOT NULL DEFAULT '',
  unfenced_by   TEXT        NOT NULL DEFAULT '',
  unfenced_at   TIMESTAMPTZ,
  touched_at    TIMESTAMPTZ NOT NULL
)`,
	MySQL: `CREATE TABLE IF NOT EXISTS {table} (
  lock_key      VARCHAR(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  token         BIGINT       NOT NULL,
  entries       BIGINT       NOT NULL,
  unfenced      BIGINT       NOT NULL DEFAULT 0,
  unfenced_tier VARCHAR(16)  NOT NULL DEFAULT '',
  unfenced_by   VARCHAR(32)  NOT NULL DEFAULT '',
  unfenced_at   DATETIME(6)  NULL,
  touched_at    DATETIME(6)  NOT NULL
) ENGINE=InnoDB`,
}
