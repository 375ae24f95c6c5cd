// Package switchcfg COMMANDS: the switch document by which operators force a chain's tier,
// its strict reading, its last good copy, and following the place where it lives.
//
// It does not know what a chain is or what a mode does: the gateway applies documents.
// [Decode], the strict reader, knows nothing of switches either and reads every
// configuration file of the project; YAML is this folder's one library. Sources that need
// an SDK live in folders of their own.
package switchcfg
