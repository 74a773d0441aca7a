//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

// What other systems would need is not worth it: these columns stay empty.

func cpuTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
func busyTime() (time.Duration, error)   { return 0, errors.ErrUnsupported }
func residentBytes(int) (int64, error)   { return 0, errors.ErrUnsupported }
func cpuModel() string                   { return "" }
func sleepUntil(t time.Time)             { time.Sleep(time.Until(t)) }
func childAttr() *syscall.SysProcAttr    { return nil }
