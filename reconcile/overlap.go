package reconcile

// Overlaps groups holds that overlapped.
func Overlaps(rule Rule, holds []Interval) []Finding { return nil }
