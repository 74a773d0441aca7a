package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// step is one thing that happens to a store. Exactly one field is set.
type step struct {
	Advance time.Duration
	Ops     []sessions.Op // one batch
	Settle  bool          // all that is due
	Renew   *renewal
	Claim   *claim
	Unclaim *claim
}

type renewal struct {
	Runs  []sessions.RunRef
	Lease time.Duration
}

type claim struct {
	Key     sessions.BindingKey
	Binding sessions.Binding
}

// outcome is what a store said to a step.
type outcome struct {
	Grants  []sessions.Grant
	Faults  []fault
	Binding sessions.Binding
}

// fault is an error as far as its kind is promised.
type fault struct {
	Refusal  *lineage.Refusal
	Conflict *lineage.Conflict
	NotFound bool
	Other    string
}

func faultOf(err error) fault {
	var refusal *lineage.Refusal
	var conflict *lineage.Conflict
	switch {
	case err == nil:
		return fault{}
	case errors.As(err, &refusal):
		return fault{Refusal: refusal}
	case errors.As(err, &conflict):
		return fault{Conflict: conflict}
	case errors.Is(err, sessions.ErrNotFound):
		return fault{NotFound: true}
	default:
		return fault{Other: err.Error()}
	}
}

// do makes the step happen to a store. The clock is not the store's: see play.
func (st step) do(ctx context.Context, s sessions.Store) outcome {
	var out outcome
	switch {
	case st.Ops != nil:
		var ops []*sessions.Op
		for _, op := range st.Ops { // copies: no store sees what another did with them
			switch {
			case op.Admit != nil:
				a := *op.Admit
				op.Admit = &a
			case op.Progress != nil:
				p := *op.Progress
				op.Progress = &p
			case op.Change != nil:
				c := *op.Change
				op.Change = &c
			}
			ops = append(ops, &op)
		}
		s.Apply(ctx, ops)
		for _, op := range ops {
			out.Grants = append(out.Grants, op.Grant)
			out.Faults = append(out.Faults, faultOf(op.Err))
		}
	case st.Settle:
		out.Faults = append(out.Faults, faultOf(settleAll(ctx, s)))
	case st.Renew != nil:
		out.Faults = append(out.Faults, faultOf(s.Renew(ctx, st.Renew.Runs, st.Renew.Lease)))
	case st.Claim != nil:
		b, err := s.Claim(ctx, st.Claim.Key, st.Claim.Binding)
		out.Binding = b
		out.Faults = append(out.Faults, faultOf(err))
	case st.Unclaim != nil:
		out.Faults = append(out.Faults, faultOf(s.Unclaim(ctx, st.Unclaim.Key, st.Unclaim.Binding)))
	}
	return out
}

// singles are the steps with every batch taken apart.
func singles(script []step) []step {
	var all []step
	for _, st := range script {
		for _, op := range st.Ops {
			all = append(all, step{Ops: []sessions.Op{op}})
		}
		if st.Ops == nil {
			all = append(all, st)
		}
	}
	return all
}

// String spells the step with what is not zero in it.
func (st step) String() string { return spell(reflect.ValueOf(st)) }

func spell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return spell(v.Elem())
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				parts = append(parts, v.Type().Field(i).Name+":"+spell(f))
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return string(v.Bytes())
		}
		var parts []string
		for i := range v.Len() {
			parts = append(parts, spell(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	default:
		return fmt.Sprint(v.Interface())
	}
}
