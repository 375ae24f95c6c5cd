package reconcile

import "slices"

// Brief is f with at most keep of its members and keep of its repairs, two at least: the
// first and the last ones, the earliest member always among them. What is left out is
// counted, and with ids the findings that it names in [Finding.Supersedes] stay named.
// Whoever sees Omitted above zero finds all members in the table, or in the events.
func (f Finding) Brief(keep int, ids bool) Finding {
	keep = max(keep, 2)
	out := f
	carried := min(f.Carried, keep/4)
	own := f.Members[min(f.Carried, len(f.Members)):]
	head, tail := keep-keep/2, keep/2
	if len(own) <= keep {
		head, tail = len(own), 0
	}
	if out.Omitted += len(f.Members) - carried - head - tail; out.Omitted > f.Omitted {
		out.Members, out.Carried = slices.Concat(f.Members[:carried], own[:head], own[len(own)-tail:]), carried
		if left := f.supersedes(); ids && len(left) > 0 && tail > 0 {
			out.Absorbed = slices.Concat(f.Absorbed, left[head-1:len(left)-tail])
		}
	}
	if !ids {
		out.Absorbed = nil
	}
	if n := len(f.Repairs) - keep; n > 0 {
		out.OmittedRepairs += n
		out.Repairs = slices.Concat(f.Repairs[:keep-keep/2], f.Repairs[len(f.Repairs)-keep/2:])
	}
	return out
}
