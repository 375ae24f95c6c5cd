package audit

// PartitionOf is where a key's events go among n partitions: murmur2 as the Java client
// has it, so that every producer in every language agrees. It is 0 when n is not positive.
func PartitionOf(key string, n int) int { return partitionOf(key, n) }

func partitionOf[T string | []byte](key T, n int) int {
	if n <= 0 {
		return 0
	}
	return int(murmur2(key)&0x7fffffff) % n
}

// murmur2 is the 32-bit hash of org.apache.kafka.common.utils.Utils.
func murmur2[T string | []byte](data T) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
