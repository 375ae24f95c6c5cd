package backendtest

var (
	bypassing                                                                                         []behaviour
	ending, punctual, crowded, fencing, unfenced, renewing, waiting, probing, wired, clocked, hanging []behaviour
)
