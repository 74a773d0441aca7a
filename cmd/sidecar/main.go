// Command sidecar stands beside a coordinator agent, records the tree of
// sessions that its calls to other agents grow, and holds the fan-out within
// caps. It is also the tool to look at such a tree.
//
//	main ─▶ run ─▶ the root command (root.go) ─┬▶ serve, demo     the sidecar itself
//	                                           ├▶ trees, tree …   look, over the admin API or into a store
//	                                           └▶ check, schema   the configuration
//
// This package alone sees both a store and the proxy. It wires and prints;
// whatever could be wrong elsewhere is decided elsewhere.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Set by the linker; see the Makefile. What a plain go build leaves out is
// read from the build information.
var (
	version string
	commit  string
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
