//go:build !linux

package main

import "syscall"

// childAttr asks for nothing: only Linux ends a child with its parent.
func childAttr() *syscall.SysProcAttr { return nil }
