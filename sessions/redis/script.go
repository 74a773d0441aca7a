package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// The scripts are the functions of one library in the server (FUNCTION LOAD):
// unlike with EVAL, what they have in common is made once and not with every
// call, which is most of what a call would cost. The library is named for what
// is in it, so sidecars of different versions have each their own.
//
// A library may not touch two slots of a cluster, and none of its functions
// begins when it may run out of memory half-way.

//go:embed lua
var sources embed.FS

// The parts of the library, each after those that it uses.
var parts = []string{
	"tree", "runs", "ending", "flush", "spawn",
	"admit", "progress", "change", "renew", "lapse", "path", "read",
	"take", "leave", "due", "claimdue", "settled", "claim", "unclaim", "forget", "bound",
	"library",
}

// function is the name of a function in the server.
type function string

var library = newLibrary()

var (
	admitScript    = library.function("admit")
	progressScript = library.function("progress")
	changeScript   = library.function("change")
	renewScript    = library.function("renew")
	lapseScript    = library.function("lapse")
	pathScript     = library.function("path")
	readScript     = library.function("read")
	takeScript     = library.function("take")
	leaveScript    = library.function("leave")
	dueScript      = library.function("due")
	claimDueScript = library.function("claimdue")
	settledScript  = library.function("settled")
	claimScript    = library.function("claim")
	unclaimScript  = library.function("unclaim")
	forgetScript   = library.function("forget")
	boundScript    = library.function("bound")
)

// scripts is a library.
type scripts struct{ name, src string }

func newLibrary() scripts {
	var body strings.Builder
	for _, part := range parts {
		src, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic("redis: " + err.Error()) // it is embedded
		}
		body.Write(src)
		body.WriteByte('\n')
	}
	sum := sha1.Sum([]byte(body.String()))
	name := "a2a_" + hex.EncodeToString(sum[:8])
	return scripts{name: name, src: "#!lua name=" + name + "\nlocal LIBRARY = '" + name + "'\n" + body.String()}
}

func (l scripts) function(name string) function { return function(l.name + "_" + name) }

// loadScripts loads the library, where it is not there.
func (s *Store) loadScripts(ctx context.Context) error {
	return s.masters(ctx, func(ctx context.Context, master goredis.Cmdable) error {
		err := master.FunctionLoad(ctx, library.src).Err()
		if err != nil && strings.Contains(err.Error(), "already exists") {
			return nil
		}
		return fault("loading the scripts", err)
	})
}

// missingFunction reports whether err says that the server has no such function.
func missingFunction(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "ERR Function not found")
}

// flight is what goes to the server at once. Every command has its own
// outcome, which is there after send.
type flight struct {
	store *Store
	pipe  goredis.Pipeliner
	calls []*call
	then  []func() // done once every command has its outcome
}

// call is one call of a script.
type call struct {
	*goredis.Cmd
	script function
	keys   []string
	args   []any
}

func (s *Store) flight() *flight { return &flight{store: s, pipe: s.client.Pipeline()} }

func (f *flight) call(ctx context.Context, fn function, keys []string, args []any) *call {
	c := &call{script: fn, keys: keys, args: args, Cmd: f.pipe.FCall(ctx, string(fn), keys, args...)}
	f.calls = append(f.calls, c)
	return c
}

// send carries everything out, in order.
func (f *flight) send(ctx context.Context) {
	if f.pipe.Len() > 0 {
		// The error is that of the first command that has one; each is looked
		// at where its outcome is.
		_, _ = f.pipe.Exec(ctx)
		f.again(ctx)
	}
	for _, do := range f.then {
		do()
	}
}

// again makes the calls again that found no script. A server that has lost the
// library (restarted, flushed) has lost all of it: from some call on none was
// carried out, so the order holds.
func (f *flight) again(ctx context.Context) {
	var lost []*call
	for _, c := range f.calls {
		if missingFunction(c.Err()) {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 {
		return
	}
	loading := f.store.loadScripts(ctx) // an error of one master of a cluster is none of the others
	pipe := f.store.client.Pipeline()
	for _, c := range lost {
		c.Cmd = pipe.FCall(ctx, string(c.script), c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // as in send
	for _, c := range lost {
		if loading != nil && missingFunction(c.Err()) {
			c.SetErr(loading)
		}
	}
}
