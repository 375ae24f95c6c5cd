package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tierlock/tierlock"
)

// Digest keeps lock ids that hold personal data out of the record: in the events of its
// chains stands, in place of the key, one that only who has the secret can make of it. All
// instances must have the same secret, or overlaps between them go unseen. A reader
// pairs, orders and compares such keys like others; a repair, which takes the lock of the
// key itself, is refused. What a caller says of its business is not touched.
type Digest struct {
	Chains []string // whose keys are hidden; none: nothing is
	Secret []byte   // at least 16 bytes
}

const leastSecret = 16

// Validate reports every fault at once.
func (d Digest) Validate() error {
	var faults []error
	d.check(func(field string, value any, rule string) {
		faults = append(faults, tierlock.Invalid(field, fmt.Sprint(value), rule))
	})
	return errors.Join(faults...)
}

func (d Digest) check(refuse func(field string, value any, rule string)) {
	if len(d.Chains) == 0 && len(d.Secret) > 0 {
		refuse("digest.chains", "", "want at least one beside a secret")
	}
	for _, chain := range d.Chains {
		if _, err := tierlock.ParseKey(chain + ":digest:" + strings.Repeat("0", 32)); err != nil {
			refuse("digest.chains", chain, "want the name of a chain")
		}
	}
	if len(d.Chains) > 0 && len(d.Secret) < leastSecret {
		refuse("digest.secret", fmt.Sprintf("%d bytes", len(d.Secret)), "want at least 16")
	}
}

// Key is what stands in events for a key of the chain: <chain>:digest: and the first 32
// hex digits of HMAC-SHA256 over the key; the key itself where the chain is none of ours.
func (d Digest) Key(chain string, key tierlock.Key) tierlock.Key {
	if !slices.Contains(d.Chains, chain) || key.IsZero() {
		return key
	}
	mac := hmac.New(sha256.New, d.Secret)
	_, _ = mac.Write([]byte(key.String())) // a hash takes everything
	hidden, err := tierlock.ParseKey(chain + ":digest:" + hex.EncodeToString(mac.Sum(nil)[:16]))
	if err != nil { // a chain's name that long is refused by Validate
		return tierlock.Key{}
	}
	return hidden
}
