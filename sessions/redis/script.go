package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// The sources of the scripts.
var (
	//go:embed lua/tree.lua
	treeLua string
	//go:embed lua/runs.lua
	runsLua string
	//go:embed lua/flush.lua
	flushLua string
	//go:embed lua/admit.lua
	admitLua string
	//go:embed lua/progress.lua
	progressLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/lapse.lua
	lapseLua string
	//go:embed lua/path.lua
	pathLua string
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/claim.lua
	claimLua string
	//go:embed lua/unclaim.lua
	unclaimLua string
	//go:embed lua/forget.lua
	forgetLua string
	//go:embed lua/bound.lua
	boundLua string
)

// The scripts. The first line makes the server refuse a script that touches
// two slots of a cluster, and one that would run out of memory half-way.
var (
	admitScript    = newScript(treeLua, runsLua, flushLua, admitLua)
	progressScript = newScript(treeLua, runsLua, flushLua, progressLua)
	renewScript    = newScript(treeLua, runsLua, flushLua, renewLua)
	lapseScript    = newScript(treeLua, runsLua, flushLua, lapseLua)
	pathScript     = newScript(treeLua, runsLua, flushLua, pathLua)
	takeScript     = newScript(takeLua)
	claimScript    = newScript(claimLua)
	unclaimScript  = newScript(unclaimLua)
	forgetScript   = newScript(forgetLua)
	boundScript    = newScript(boundLua)

	scripts = []*script{
		admitScript, progressScript, renewScript, lapseScript, pathScript, takeScript, claimScript, unclaimScript,
		forgetScript, boundScript,
	}
)

// script is a source and the digest by which the server knows it. (A
// goredis.Script forgets its digest when it is loaded in a pipeline.)
type script struct{ src, sha string }

func newScript(parts ...string) *script {
	src := "#!lua\n" + strings.Join(parts, "")
	sum := sha1.Sum([]byte(src))
	return &script{src: src, sha: hex.EncodeToString(sum[:])}
}

// loadScripts loads them all in one transaction: a server that has some of
// them and not others would carry out a batch in another order than it came.
func (s *Store) loadScripts(ctx context.Context) error {
	load := func(ctx context.Context, c goredis.Cmdable) error {
		_, err := c.TxPipelined(ctx, func(pipe goredis.Pipeliner) error {
			for _, sc := range scripts {
				pipe.ScriptLoad(ctx, sc.src)
			}
			return nil
		})
		return err
	}
	if cluster, ok := s.client.(*goredis.ClusterClient); ok {
		return fault("loading the scripts", cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error {
			return load(ctx, c)
		}))
	}
	return fault("loading the scripts", load(ctx, s.client))
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
	script *script
	keys   []string
	args   []any
}

func (s *Store) flight() *flight { return &flight{store: s, pipe: s.client.Pipeline()} }

func (f *flight) call(ctx context.Context, sc *script, keys []string, args []any) *call {
	c := &call{script: sc, keys: keys, args: args, Cmd: f.pipe.EvalSha(ctx, sc.sha, keys, args...)}
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

// again makes the calls again that found no script. A server that has lost its
// scripts (restarted, flushed, failed over) has lost them all: from some call
// on none was carried out, so the order holds.
func (f *flight) again(ctx context.Context) {
	var lost []*call
	for _, c := range f.calls {
		if goredis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 {
		return
	}
	if err := f.store.loadScripts(ctx); err != nil {
		for _, c := range lost {
			c.SetErr(err)
		}
		return
	}
	pipe := f.store.client.Pipeline()
	for _, c := range lost {
		c.Cmd = pipe.EvalSha(ctx, c.script.sha, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // as in send
}
