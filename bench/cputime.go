package main

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// ownTime is the processor time that this process has used, in user and kernel.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // it has no reason to fail for oneself
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serverTime is the same of the Redis.
func (s *session) serverTime(ctx context.Context) (time.Duration, error) {
	info, err := s.admin.InfoMap(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu, %s: %w", name, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}
