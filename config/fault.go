package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	File    string `json:"file,omitempty"`   // the file, or the SIDECAR_* variable or flag, that the value came from
	Line    int    `json:"line,omitempty"`   // from 1; 0 outside a file
	Column  int    `json:"column,omitempty"` // from 1; 0 outside a file
	Key     string `json:"key,omitempty"`    // path, such as agents[0].kind
	Value   string `json:"value,omitempty"`  // as it was written, without credentials; empty where showing it helps nobody
	Problem string `json:"problem"`          // reads on from the value: "is not one of branch, worker"
	Hint    string `json:"hint,omitempty"`   // what to do about it
}

// maxShown is how many bytes of a value a fault shows.
const maxShown = 80

// newFault is the only maker of faults: none shows a value that it did not pass.
func newFault(file, key, value, problem, hint string) Fault {
	value = redact(value)
	if key == "store" {
		value = NewStoreURL(value).String() // finds more
	}
	if len(value) > maxShown {
		value = strings.ToValidUTF8(value[:maxShown], "") + "…"
	}
	return Fault{File: file, Key: key, Value: value, Problem: problem, Hint: hint}
}

// Error returns the fault on one line:
//
//	sidecar.yml:12: agents[0].kind: "wrker" is not one of branch, worker (did you mean worker?)
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			b.WriteString(":" + strconv.Itoa(f.Line))
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	if f.Value != "" {
		b.WriteString(strconv.Quote(f.Value) + " ")
	}
	b.WriteString(f.Problem)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// Faults is everything wrong with a configuration: those of the file in its
// order, then the others. As an error it is never empty.
type Faults []Fault

// Error returns one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// err returns fs as an error, nil if there is no fault.
func (fs Faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line) // no line: last
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fs
}

// didYouMean returns a hint that names the candidate nearest to got, or "" if
// none is near enough to be a slip.
func didYouMean(got string, candidates []string) string {
	best, least := "", max(1, len(got)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(got), strings.ToLower(c)); d < least && d < len(c) {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// distance is the Levenshtein distance in bytes: names are ASCII.
func distance(a, b string) int {
	if len(a) > maxShown {
		return len(a) // nothing is near to it, and the work would be quadratic
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
