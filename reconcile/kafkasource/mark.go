package kafkasource

import (
	"fmt"
	"time"

	"github.com/tierlock/tierlock/reconcile"
)

// encodeMark is what stands beside a committed offset: what a restart has to know besides.
func encodeMark(m reconcile.Mark) string {
	var judged int64
	if !m.Judged.IsZero() {
		judged = m.Judged.UnixMicro()
	}
	return fmt.Sprintf("tierlock/1 %d %d", judged, m.Read)
}

// decodeMark reads it. What another program has committed tells the offset only.
func decodeMark(partition int, offset int64, text string) reconcile.Mark {
	m := reconcile.Mark{Partition: partition, Offset: offset}
	var judged, read int64
	if n, err := fmt.Sscanf(text, "tierlock/1 %d %d", &judged, &read); err != nil || n != 2 || read < offset {
		return m
	}
	m.Read = read
	if judged != 0 {
		m.Judged = time.UnixMicro(judged).UTC()
	}
	return m
}
