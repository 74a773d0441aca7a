package redis_test

import (
	"fmt"
	"regexp"
	"slices"
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

// BenchmarkAdmission measures the round trip of one admission against that of a
// plain HSET on the same server, in turns, beside so many live children of the
// same parent; and what an admission costs: commands within the server, and
// bytes both ways.
func BenchmarkAdmission(b *testing.B) {
	for _, children := range []int{8, 10_000} {
		b.Run(fmt.Sprintf("beside %d children", children), func(b *testing.B) {
			srv := redistest.Start(b)
			store, rdb := open(b, srv, redis.Options{}), srv.Client(b)
			ops := make([]*sessions.Op, children)
			for i := range ops {
				a := call("r", i)
				a.Limits.MaxChildren = 20_000
				ops[i] = &sessions.Op{Admit: a}
			}
			for part := range slices.Chunk(ops, 100) {
				apply(b, store, part...)
			}
			n := children
			next := func() *sessions.Admission {
				a := call("r", n)
				a.Limits.MaxChildren = 20_000
				n++
				return a
			}
			var plain, admissions []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := rdb.HSet(b.Context(), "plain", "field", "a value of some length").Err(); err != nil {
					b.Fatal(err)
				}
				plain = append(plain, time.Since(began))
				a := next()
				began = time.Now()
				apply(b, store, &sessions.Op{Admit: a})
				admissions = append(admissions, time.Since(began))
				apply(b, store, &sessions.Op{Progress: end(a)})
			}
			slices.Sort(plain)
			slices.Sort(admissions)
			hset, admission := plain[len(plain)/2], admissions[len(admissions)/2]
			b.ReportMetric(float64(admission)/float64(hset), "HSETs")
			b.ReportMetric(float64(hset.Nanoseconds())/1e3, "HSET-µs")
			b.ReportMetric(float64(admission.Nanoseconds())/1e3, "admission-µs")

			const counted = 100
			looked, before := traffic(b, rdb), traffic(b, rdb)
			asked, _ := served(b, rdb)
			for range counted {
				apply(b, store, &sessions.Op{Admit: next()})
			}
			done, _ := served(b, rdb)
			b.ReportMetric((done-asked)/counted, "commands")
			after := traffic(b, rdb)
			b.ReportMetric((after-before-3*(before-looked))/counted, "bytes")
		})
	}
}

// apply applies ops, which must succeed.
func apply(tb testing.TB, s sessions.Store, ops ...*sessions.Op) {
	tb.Helper()
	s.Apply(tb.Context(), ops)
	for _, op := range ops {
		if op.Err != nil {
			tb.Fatal(op.Err)
		}
	}
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

// traffic returns how many bytes the server has received and sent. To ask costs
// about as many as the last time.
func traffic(tb testing.TB, rdb *goredis.Client) float64 {
	tb.Helper()
	info, err := rdb.Info(tb.Context(), "stats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	var sum float64
	for _, m := range netBytes.FindAllStringSubmatch(info, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			tb.Fatalf("INFO stats says %q", m[0])
		}
		sum += n
	}
	return sum
}

var (
	netBytes = regexp.MustCompile(`total_net_(?:input|output)_bytes:(\d+)`)
	calls    = regexp.MustCompile(`cmdstat_\S+:calls=(\d+)`)
	cpu      = regexp.MustCompile(`used_cpu_(?:user|sys)_main_thread:(\S+)`)
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
