package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/compare"
	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

// one is one run: a client does one scenario with one agent.
type one struct {
	client, agent    *program
	binding, version string
	scenario         string
	mode             mode // of the agent
}

func (o one) String() string {
	return strings.Join([]string{o.client.name, o.agent.name, o.binding, o.version, o.scenario}, "/")
}

// runs are all runs of a client with an agent, in one mode of it each.
func (l *lab) runs(client, agent *program) []one {
	if client.client == nil || agent.agent == nil || l.short && !inShort(client, agent) {
		return nil
	}
	var all []one
	for _, mode := range agent.modesFor(client, l.short) {
		for _, version := range []string{v10, v03} {
			if mode.version != both && mode.version != version {
				continue
			}
			for _, binding := range []string{rpc, rest, grpc} {
				if mode.noGRPC && binding == grpc || !slices.Contains(client.speaks[version], binding) || !slices.Contains(agent.serves[version], binding) {
					continue
				}
				for _, scenario := range client.scenariosOf(l.short) {
					r := one{client, agent, binding, version, scenario, mode}
					if l.only == nil || l.only.MatchString(r.String()) {
						all = append(all, r)
					}
				}
			}
		}
	}
	return all
}

// matrix carries out every run, agent by agent.
func (l *lab) matrix(ctx context.Context) (*report, error) {
	report := newReport()
	for i := range programs {
		agent := &programs[i]
		var modes []mode // in the order of their first run
		runs := map[mode][]one{}
		for j := range programs {
			for _, r := range l.runs(&programs[j], agent) {
				if runs[r.mode] == nil {
					modes = append(modes, r.mode)
				}
				runs[r.mode] = append(runs[r.mode], r)
			}
		}
		for _, m := range modes {
			if err := l.with(ctx, agent, m, runs[m], report); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// with carries out the runs with one agent in one mode. The error is that the
// lab is to end; what goes wrong with the agent stands in the report.
func (l *lab) with(ctx context.Context, agent *program, mode mode, runs []one, report *report) error {
	began := time.Now()
	if err := l.ready[agent.name]; err != nil {
		for _, r := range runs {
			report.add(r, broken(agent.name+" could not be made: "+firstOf(err)))
		}
		return nil
	}
	w, err := l.open(ctx, agent, mode)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.say("%v", err)
		for _, r := range runs {
			report.add(r, broken(err.Error()))
		}
		return nil
	}
	for _, r := range runs {
		o := l.run(ctx, w, r)
		if ctx.Err() != nil {
			break
		}
		report.add(r, o)
		switch {
		case len(o.failures) > 0:
			more := ""
			if n := len(o.failures) - 1; n > 0 {
				more = fmt.Sprintf(" (and %d more)", n)
			}
			l.say("✗ %s (%s): %s%s", r, mode, o.failures[0], more)
		case l.verbose && o.unsupported != "":
			l.say("– %s (%s): %s", r, mode, o.unsupported)
		case l.verbose:
			l.say("✓ %s (%s), %d exchanges compared", r, mode, o.compared)
		}
	}
	err = w.close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.say("%s (%s): %d runs in %.1f s", agent.name, mode, len(runs), time.Since(began).Seconds())
	return err
}

// outcome is what came of a run.
type outcome struct {
	unsupported string    // why the client cannot do it
	erred       string    // error that the client gets directly, too
	failures    []failure // what differs
	compared    int       // exchanges held against each other
}

// failure is one thing that is not as it is without the sidecar.
type failure struct {
	way   string // through the sidecar; empty: it never came to that
	about string // call, if it is about one
	what  string
}

func (f failure) String() string {
	return strings.Join(slices.DeleteFunc([]string{f.way, f.about, f.what}, func(s string) bool { return s == "" }), ": ")
}

func broken(what string) outcome { return outcome{failures: []failure{{what: what}}} }

// firstOf is the first line of an error: the others were shown when it occurred.
func firstOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// args is the command of a run over one way; nil is straight to the agent.
func (l *lab) args(w *world, y *way, r one) []string {
	base := w.base
	if y != nil {
		base = y.base
	}
	return append(l.expand(r.client.client), "--url", base, "--binding", r.binding, "--version", r.version, "--scenario", r.scenario)
}

// run carries out one run: directly and over each way, side by side.
func (l *lab) run(ctx context.Context, w *world, r one, more ...string) outcome {
	if err := l.ready[r.client.name]; err != nil {
		return broken(r.client.name + " could not be made: " + firstOf(err))
	}
	var wg sync.WaitGroup
	var direct played
	wg.Go(func() { direct = l.play(ctx, append(l.args(w, nil, r), more...)) })
	through := make([]played, len(w.ways))
	for i, y := range w.ways {
		wg.Go(func() { through[i] = l.play(ctx, append(l.args(w, y, r), more...)) })
	}
	wg.Wait()

	var o outcome
	switch {
	case direct.err != nil: // no fault of the sidecar's, but nothing is proven
		o.failures = append(o.failures, failure{way: "directly", what: direct.err.Error()})
	case direct.refused != "":
		o.unsupported = direct.refused
	}
	for i, y := range w.ways {
		near, far, err := y.cut()
		if err != nil {
			o.failures = append(o.failures, failure{way: y.name, what: err.Error()})
		}
		if o.unsupported != "" {
			if through[i].refused == "" {
				o.failures = append(o.failures, failure{way: y.name, what: "directly the client refuses, through the sidecar it does not"})
			}
			continue
		}
		o.compared += len(far)
		found := o.failures
		what, differences := l.judge(ctx, w, y, r, direct, through[i], more), compare.Differences(near, far, y.rules)
		for again := 0; what != "" && len(differences) == 0 && again < repeats; again++ {
			// Not a byte differs, so it is the agent that says now this, now that.
			through[i] = l.play(ctx, append(l.args(w, y, r), more...))
			if near, far, err = y.cut(); err != nil {
				break
			}
			o.compared += len(far)
			what, differences = l.judge(ctx, w, y, r, direct, through[i], more), compare.Differences(near, far, y.rules)
		}
		if what != "" {
			found = append(found, failure{way: y.name, what: what})
		}
		for _, d := range differences {
			found = append(found, failure{y.name, d.About, d.What})
		}
		if len(found) > len(o.failures) && l.keep {
			l.record(r, y, near, far)
		}
		o.failures = found
	}
	if r.scenario != "errors" {
		o.erred = errorOf(direct.lines)
	}
	return o
}

// repeats is how often a run may be repeated whose agent's answers vary.
const repeats = 3

// judge holds what a client said through the sidecar against what it said
// directly. What an agent says may vary from run to run by itself, so the direct
// run is repeated before the sidecar is blamed. It returns "" if all is well.
func (l *lab) judge(ctx context.Context, w *world, y *way, r one, direct, through played, more []string) string {
	switch {
	case through.err != nil:
		return through.err.Error()
	case through.refused != "":
		return "directly the client can, through the sidecar it cannot: " + through.refused
	case direct.err != nil:
		return ""
	}
	unordered := r.scenario == "fanout"
	got := normal(through.lines, y.rules.Isolated, unordered)
	for try := range repeats + 1 {
		want := normal(direct.lines, y.rules.Isolated, unordered)
		if slices.Equal(want, got) {
			return ""
		}
		if try == repeats {
			return "the client says something else: " + firstLine(want, got)
		}
		direct = l.play(ctx, append(l.args(w, nil, r), more...))
	}
	return ""
}

// record writes down what passed.
func (l *lab) record(r one, y *way, near, far []tap.Exchange) {
	var b strings.Builder
	for _, side := range []struct {
		name string
		all  []tap.Exchange
	}{{"near", near}, {"far", far}} {
		for _, e := range side.all {
			fmt.Fprintf(&b, "== %s %d: %s %s %s\n%q\n%q\n-- %d (truncated: %t)\n%q\n%q\n%q\n", side.name, e.Seq, e.Proto, e.Method, e.Target,
				e.Request.Header, e.Request.Body, e.Status, e.Response.Truncated, e.Response.Header, e.Response.Body, e.Response.Trailer)
		}
	}
	name := strings.NewReplacer("/", "_", " ", "-").Replace(r.String()+"_"+r.mode.String()+"_"+y.name) + ".txt"
	if err := os.WriteFile(filepath.Join(l.work, name), []byte(b.String()), 0o600); err != nil {
		l.say("keeping a recording: %v", err)
	}
}
