package redisstore

import "github.com/tierlock/tierlock"

// slots is how many slots a Redis Cluster spreads its keys over.
const slots = 16384

// slotOf is the slot of key: CRC-16 with the polynomial 0x1021 from 0, as Redis Cluster has
// it. A key has no braces, so all of it counts, and {<key>}:fence has the same slot.
func slotOf(key tierlock.Key) uint16 {
	var sum uint16
	for _, b := range []byte(key.String()) {
		sum = sum<<8 ^ crcTable[byte(sum>>8)^b]
	}
	return sum % slots
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum & 0x8000
			sum <<= 1
			if carry != 0 {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}()
