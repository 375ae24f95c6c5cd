// Package guardtest is the suite that every database under package guard passes. Run it on
// your own, with the driver, the settings and the pooler that you use: a guard is as good
// as the row locks behind it.
package guardtest

import (
	"database/sql"
	"testing"

	"github.com/tierlock/tierlock/guard"
)

// Database is what the suite runs on.
type Database struct {
	Dialect guard.Dialect // required
	// Open returns a pool of an empty database, or of an empty schema that its statements
	// mean, with room for 32 connections, and has it closed when tb ends. It is called
	// once for each test. Required.
	Open func(tb testing.TB) *sql.DB
	// Crash ends the server without a warning and returns when it is up again. Nil: what a
	// crash leaves is not looked at.
	Crash func()
}

// levels are the isolation levels that a test is repeated on. SQLite has one.
func (d Database) levels() []sql.IsolationLevel {
	if d.Dialect == guard.SQLite {
		return []sql.IsolationLevel{sql.LevelDefault}
	}
	return []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}

// Run runs the whole suite.
func Run(t *testing.T, d Database) {
	for name, run := range map[string]func(*shop){
		"enter raises the mark and refuses lower":  entersRise,
		"keys are kept apart":                      keysAreKeptApart,
		"a holder without a token is refused":      unfencedIsRefused,
		"a holder without a token is on record":    unfencedIsOnRecord,
		"rollback gives the mark back":             rollbackGivesTheMarkBack,
		"paused holder cannot lose an update":      pausedHolderLosesNothing,
		"tokens at the write alone lose an update": tokensAtTheWriteAloneLose,
		"without the guard updates are lost":       withoutTheGuardUpdatesAreLost,
		"without the guard a thing is made twice":  withoutTheGuardAThingIsMadeTwice,
		"enter refuses what is no transaction":     entersInATransactionOnly,
		"the short form is the default fence":      shortForm,
		"a table may have another name":            tableHasAnotherName,
		"crossed keys are begun again":             crossedKeysAreBegunAgain,
		"a wait that is too long is begun again":   longWaitIsBegunAgain,
		"transact gives up with its context":       transactGivesUpWithItsContext,
		"sweep removes what is idle":               sweepRemovesWhatIsIdle,
		"sweep leaves what is entered meanwhile":   sweepLeavesWhatIsEntered,
		"once":                                     onceChangesOne,
		"row compares and bumps":                   rowComparesAndBumps,
		"row keeps a token":                        rowKeepsAToken,
		"http keeps its marks in sql":              httpKeepsItsMarks,
		"http lets unfenced on record":             httpUnfenced,
	} {
		t.Run(name, func(t *testing.T) { run(open(t, d, sql.LevelDefault)) })
	}
	if d.Crash != nil {
		t.Run("a crash leaves what was committed", func(t *testing.T) { crashLeavesTheMark(open(t, d, sql.LevelDefault), d.Crash) })
	}
	for name, run := range map[string]func(*shop){
		"older holder in first":                olderHolderFirst,
		"newer holder in first":                newerHolderFirst,
		"many holders keep the register":       manyHoldersKeepTheRegister,
		"a thing is made once":                 aThingIsMadeOnce,
		"who enters late reads nothing old":    lateEntryReadsNothingOld,
		"row token keeps the register as well": rowTokenKeepsTheRegister,
	} {
		for _, level := range d.levels() {
			t.Run(name+" "+level.String(), func(t *testing.T) { run(open(t, d, level)) })
		}
	}
}
