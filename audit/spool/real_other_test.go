//go:build !linux

package spool_test

func taskMain() bool { return false }
