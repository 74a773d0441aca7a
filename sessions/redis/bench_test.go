package redis_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// BenchmarkApply measures admissions of isolated sessions, and their ends, in
// one tree that grows: calls/s, commands inside the server per call, and what
// the server itself spends on one.
func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("admissions in batches of %d", batch), func(b *testing.B) {
			benchmark(b, batch, func(n int) *sessions.Op { return &sessions.Op{Admit: call(fmt.Sprint("r", n/1000), n)} })
		})
		b.Run(fmt.Sprintf("shared admissions in batches of %d", batch), func(b *testing.B) {
			benchmark(b, batch, func(n int) *sessions.Op {
				a := call(fmt.Sprint("r", n/1000), n)
				a.Isolated, a.Resolve, a.ContextID = false, sessions.ResolveContext, "ctx-"+a.Root
				return &sessions.Op{Admit: a}
			})
		})
		b.Run(fmt.Sprintf("calls (admission, end) in batches of %d", batch), func(b *testing.B) {
			benchmark(b, batch, func(n int) *sessions.Op {
				a := call(fmt.Sprint("r", n/2000), n/2)
				if n%2 == 0 {
					return &sessions.Op{Admit: a}
				}
				return &sessions.Op{Progress: end(a)}
			})
		})
		b.Run(fmt.Sprintf("capped admissions in batches of %d", batch), func(b *testing.B) {
			benchmark(b, batch, func(n int) *sessions.Op {
				a := call(fmt.Sprint("r", n/1000), n)
				a.Limits.MaxConcurrent = 1 << 30
				return &sessions.Op{Admit: a}
			})
		})
	}
}

func benchmark(b *testing.B, batch int, op func(n int) *sessions.Op) {
	b.Helper()
	srv := redistest.Start(b)
	store := open(b, srv, redis.Options{})
	rdb := srv.Client(b)
	n := 0
	ops := make([]*sessions.Op, batch)
	before, spent := served(b, rdb)
	b.ResetTimer()
	for b.Loop() {
		for i := range ops {
			ops[i] = op(n)
			n++
		}
		store.Apply(b.Context(), ops)
		for _, op := range ops {
			if op.Err != nil {
				b.Fatal(op.Err)
			}
		}
	}
	b.StopTimer()
	after, total := served(b, rdb)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric((after-before)/float64(n), "commands/op")
	b.ReportMetric((total-spent)/float64(n), "server-µs/op")
}

// BenchmarkPing is the round trip that everything is measured against.
func BenchmarkPing(b *testing.B) {
	rdb := redistest.Start(b).Client(b)
	for b.Loop() {
		if err := rdb.Ping(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

var (
	calls = regexp.MustCompile(`cmdstat_\S+:calls=(\d+)`)
	cpu   = regexp.MustCompile(`used_cpu_(?:user|sys)_main_thread:(\S+)`)
)

// served returns how many commands the server has carried out, those within
// scripts included, and the processor time it has used, in microseconds.
func served(tb testing.TB, rdb *goredis.Client) (commands, micros float64) {
	tb.Helper()
	sum := func(section string, each *regexp.Regexp) (sum float64) {
		info, err := rdb.Info(tb.Context(), section).Result()
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range each.FindAllStringSubmatch(info, -1) {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				tb.Fatalf("INFO %s says %q", section, m[0])
			}
			sum += n
		}
		return sum
	}
	return sum("commandstats", calls), 1e6 * sum("cpu", cpu)
}

// call is the n-th call of the root session of a tree, in a session of its own.
func call(root string, n int) *sessions.Admission {
	return &sessions.Admission{
		Root: root, Principal: "alice", Local: "coordinator", MainID: "main-" + root, RemoteID: fmt.Sprint("remote-", root, n),
		Agent: "worker", Kind: "branch", Isolated: true, Inherit: "full", Source: "header", Turn: "turn-1",
		ContextID: fmt.Sprint("context-", root, "-", n), SessionID: fmt.Sprint("session-", root, "-", n), RunID: fmt.Sprint("run-", root, "-", n),
		MessageID: fmt.Sprint("message-", n), Owner: "sidecar-1", Lease: 30 * time.Second, TTL: time.Hour,
		Sent: []byte(`{"method":"SendMessage"}`),
	}
}

// end is the end of that call.
func end(a *sessions.Admission) *sessions.Progress {
	return &sessions.Progress{
		Root: a.Root, Session: a.SessionID, Run: a.RunID, Gen: 1, Agent: a.Agent, State: "completed",
		Result: []byte(`{"status":"completed","summary":"done"}`),
		Events: []sessions.Draft{{ID: "received/" + a.RunID, Type: "message.received", Payload: []byte(`{"run":"` + a.RunID + `"}`)}},
	}
}
