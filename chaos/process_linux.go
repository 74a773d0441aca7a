package main

import "syscall"

// childAttr makes a child die with this process, however that ends, and keeps
// Ctrl-C to this process, which stops its children in order.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
