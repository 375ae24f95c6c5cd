// Package switchctl changes the switch document where it lives: it reads what is there,
// works out the next version, shows what would change, and publishes it. It knows chains by
// their policies and holds no lock; what instances make of a document is the gateway's.
package switchctl
