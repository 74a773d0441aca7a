package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitRefused  = 4 // by a limit or a conflict
)

// failure is an error that knows how the program ends on it, and what the user
// may do about it.
type failure struct {
	error
	code int
	hint string // one line; empty: none
}

func (f *failure) Unwrap() error { return f.error }

// usage is the error of a command line that cannot be meant.
func usage(format string, args ...any) error {
	return &failure{error: fmt.Errorf(format, args...), code: exitUsage}
}

// misused is the error of a command line that cobra refused.
func misused(cmd *cobra.Command, args []string, err error) error {
	hint := "`" + cmd.CommandPath() + " --help` says how"
	if !cmd.HasParent() {
		if i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") }); i >= 0 {
			if near := cmd.SuggestionsFor(args[i]); len(near) > 0 {
				hint = "did you mean `" + cmd.CommandPath() + " " + near[0] + "`?"
			}
		}
	}
	text, _, _ := strings.Cut(err.Error(), "\n") // cobra's own suggestions follow
	return &failure{error: fmt.Errorf("reading the command line: %s", text), code: exitUsage, hint: hint}
}

// report tells the user of err, if it is one, and returns the exit code.
func (e *env) report(err error) int {
	if err == nil {
		return exitDone
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	e.tell("sidecar: " + text)
	if hint := hintFor(err); hint != "" {
		e.tell("hint: " + hint)
	}
	return exitCode(err)
}

// tell writes a line to standard error.
func (e *env) tell(line string) {
	_, _ = io.WriteString(e.stderr, clean(line, e.style().ascii)+"\n") // if this fails there is nobody to tell
}

func exitCode(err error) int {
	if f, ok := errors.AsType[*failure](err); ok && f.code != 0 {
		return f.code
	}
	if _, ok := errors.AsType[*lineage.Refusal](err); ok {
		return exitRefused
	}
	if errors.Is(err, sessions.ErrNotFound) {
		return exitNotFound
	}
	p, ok := errors.AsType[*adminapi.Problem](err)
	if !ok {
		return exitFailed
	}
	switch p.Status {
	case http.StatusBadRequest:
		if p.Reason != "" { // a cap that no waiting lifts
			return exitRefused
		}
		return exitUsage
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict, http.StatusTooManyRequests:
		return exitRefused
	case http.StatusForbidden:
		if p.Reason == string(lineage.ContextForbidden) {
			return exitRefused
		}
	}
	return exitFailed
}

// reasonOf returns the reason of the problem in err, empty if there is none.
func reasonOf(err error) string {
	if p, ok := errors.AsType[*adminapi.Problem](err); ok {
		return p.Reason
	}
	return ""
}

func hintFor(err error) string {
	if f, ok := errors.AsType[*failure](err); ok && f.hint != "" {
		return f.hint
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is `sidecar serve` running? --admin URL says where its admin API is, --store URL looks into a store without it"
	case errors.Is(err, context.DeadlineExceeded):
		return "the other side did not answer in time"
	case adminapi.StatusOf(err) == http.StatusUnauthorized:
		return "--token-file FILE names the file that holds the token"
	case reasonOf(err) == adminapi.ReasonUnknownAgent:
		return "it is one of the names under agents in the sidecar's configuration"
	case reasonOf(err) == adminapi.ReasonConflict:
		return "`sidecar session ID` shows how it stands"
	case adminapi.StatusOf(err) == http.StatusMisdirectedRequest:
		return "call it by the address that it is bound to"
	default:
		return ""
	}
}
