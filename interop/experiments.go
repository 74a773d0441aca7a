package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/compare"
)

const (
	manyErrors = 1000
	fanOut     = 11 // calls of one turn
)

// experiment is a run that proves one thing.
type experiment func(context.Context, *world) (row, error)

// fanOutRow begins the rows of fan-outs, which stand together.
const fanOutRow = "fan-out of"

// extras are the experiments, told in rows of their own.
func (l *lab) extras(ctx context.Context, report *report) error {
	for i := range programs {
		agent := &programs[i]
		var modes []mode // in the order of their first experiment
		planned := map[mode][]experiment{}
		for j := range programs {
			client := &programs[j]
			if agent.agent == nil || client.client == nil || l.short && !inShort(client, agent) {
				continue
			}
			m := agent.modesFor(client, true)[0]
			if !slices.Contains(modes, m) {
				modes = append(modes, m)
			}
			for _, version := range []string{v10, v03} {
				planned[m] = append(planned[m], l.errorRuns(client, agent, version, m)...)
				planned[m] = append(planned[m], l.fanOutRun(client, agent, version, m)...)
			}
		}
		for _, m := range modes {
			if err := l.experiment(ctx, agent, m, planned[m], report); err != nil {
				return err
			}
		}
	}
	fanOuts := func(x row) bool { return strings.HasPrefix(x.name, fanOutRow) }
	others := slices.DeleteFunc(slices.Clone(report.extra), fanOuts)
	report.extra = append(others, slices.DeleteFunc(report.extra, func(x row) bool { return !fanOuts(x) })...)
	return nil
}

// experiment runs the experiments with one agent.
func (l *lab) experiment(ctx context.Context, agent *program, mode mode, planned []experiment, report *report) error {
	if len(planned) == 0 || l.ready[agent.name] != nil {
		return nil // the matrix has said why
	}
	w, err := l.open(ctx, agent, mode)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		report.extra = append(report.extra, row{name: agent.name, through: err.Error(), failed: true})
		return nil
	}
	for _, do := range planned {
		x, err := do(ctx, w)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			x.failed, x.through = true, err.Error()
		}
		if x.failed {
			l.say("✗ %s: directly %s, through the sidecar %s", x.name, x.direct, x.through)
		} else if l.verbose {
			l.say("✓ %s", x.name)
		}
		report.extra = append(report.extra, x)
	}
	if err := w.close(); err != nil {
		return err
	}
	return ctx.Err()
}

// possible reports whether a client can do an experiment with an agent in this run.
func (l *lab) possible(client, agent *program, version string, mode mode, binding, scenario string) (one, bool) {
	r := one{client, agent, binding, version, scenario, mode}
	return r, l.ready[client.name] == nil && (mode.version == both || mode.version == version) && (!mode.noGRPC || binding != grpc) &&
		slices.Contains(client.speaks[version], binding) && slices.Contains(agent.serves[version], binding) &&
		(l.only == nil || l.only.MatchString(r.String()))
}

// errorRuns asks over gRPC for a task that is not there, a thousand times over
// one channel and, if the client can, over fresh ones. A proxy that flushes too
// early turns one such error in ten into another.
func (l *lab) errorRuns(client, agent *program, version string, mode mode) []experiment {
	r, ok := l.possible(client, agent, version, mode, grpc, "errors")
	if !ok || client.scenarios != nil || !inShort(client, agent) || l.short && client != agent {
		return nil
	}
	over := func(name string, more ...string) experiment {
		return func(ctx context.Context, w *world) (row, error) {
			x := row{name: fmt.Sprintf("%d gRPC errors over %s: %s → %s, %s", manyErrors, name, client.name, agent.name, version)}
			direct := l.play(ctx, append(l.args(w, nil, r), more...))
			if direct.refused != "" {
				x.direct = "– " + direct.refused
				return x, nil
			}
			want := normal(direct.lines, false, false)
			if direct.err != nil || distinct(want) != 1 || len(want) != manyErrors {
				return x, fmt.Errorf("directly there were %d answers of %d kinds: %w", len(want), distinct(want), direct.err)
			}
			x.direct = fmt.Sprintf("%d of one kind", len(want))
			y := w.ways[0]
			through := l.play(ctx, append(l.args(w, y, r), more...))
			near, far, err := y.cut()
			if err != nil || through.err != nil {
				return x, fmt.Errorf("%w: %w", through.err, err)
			}
			same := 0
			got := normal(through.lines, false, false)
			for _, line := range got {
				if line == want[0] {
					same++
				}
			}
			x.through = fmt.Sprintf("%d of %d the same", same, len(got))
			x.failed = same != manyErrors
			differences := compare.Differences(near, far, y.rules)
			x.through += fmt.Sprintf("; %d differ on the wire", len(differences))
			if len(differences) > 0 {
				x.failed = true
				x.through += ", the first in " + differences[0].String()
			}
			return x, nil
		}
	}
	count := []string{"--count", strconv.Itoa(manyErrors)}
	all := []experiment{over("one channel", count...)}
	if client.fresh {
		all = append(all, over("fresh channels", append(count, "--fresh")...))
	}
	return all
}

// fanOutRun lets a coordinator call an agent 11 times at once, in two turns of
// one conversation. What it does by itself in the second is what collapses.
func (l *lab) fanOutRun(client, agent *program, version string, mode mode) []experiment {
	r, ok := l.possible(client, agent, version, mode, rpc, "fanout")
	if !ok || !client.fanOut {
		return nil
	}
	return []experiment{func(ctx context.Context, w *world) (row, error) {
		x := row{name: fmt.Sprintf("%s %d in two turns: %s → %s, %s", fanOutRow, fanOut, client.name, agent.name, version)}
		direct := l.play(ctx, l.args(w, nil, r))
		if direct.err != nil {
			return x, direct.err
		}
		if direct.refused != "" {
			x.direct = "– " + direct.refused
			return x, nil
		}
		contexts := contextsOf(direct.lines)
		if len(contexts) != 2*fanOut {
			return x, fmt.Errorf("directly the client told of %d contexts, not %d", len(contexts), 2*fanOut)
		}
		x.direct = fmt.Sprintf("turn 1 in %d contexts, turn 2 in %d", distinct(contexts[:fanOut]), distinct(contexts[fanOut:]))
		for _, y := range w.ways {
			through := l.play(ctx, l.args(w, y, r))
			near, far, err := y.cut()
			if err != nil || through.err != nil {
				return x, fmt.Errorf("%s: %w: %w", y.name, through.err, err)
			}
			asked, sent := compare.Contexts(near), compare.Contexts(far)
			if len(asked) != 2*fanOut || len(sent) != 2*fanOut {
				return x, fmt.Errorf("%s: %d messages came to the sidecar and %d to the agent, not %d", y.name, len(asked), len(sent), 2*fanOut)
			}
			if differences := compare.Differences(near, far, y.rules); len(differences) > 0 {
				x.failed = true
				x.through += differences[0].String() + "; "
			}
			if y.rules.Isolated {
				n := distinct(sent)
				x.through += fmt.Sprintf("isolated both turns run in %d", n)
				x.failed = x.failed || n != 2*fanOut || slices.Contains(sent, "")
			} else {
				x.through += "turn 2 asks for " + told(asked[fanOut:]) + ", "
			}
		}
		return x, nil
	}}
}

// told is what calls said of their contexts.
func told(ids []string) string {
	switch n := distinct(ids); {
	case n == 1 && ids[0] == "":
		return "no context"
	case n == 1:
		return "one context"
	default:
		return fmt.Sprintf("%d contexts", n)
	}
}
