package gatewaytest_test

import (
	"testing"

	"github.com/tierlock/tierlock/backend/backendtest"
	"github.com/tierlock/tierlock/gateway/gatewaytest"
)

// What a user tests against keeps the contract that real stores keep.
func TestStoreKeepsTheContract(t *testing.T) {
	backendtest.Run(t, "in memory", gatewaytest.NewStore(), backendtest.Options{})
}
