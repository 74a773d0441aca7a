package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want, ascii string }{
		{"", "", ""},
		{"plain text", "plain text", "plain text"},
		{"ünï 日本", "ünï 日本", `\u00fcn\u00ef \u65e5\u672c`},
		{"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
		{"two\nlines\r\t", `two\nlines\r\t`, `two\nlines\r\t`},
		{"\u009b31m", `\u009b31m`, `\u009b31m`}, // CSI as one character
		{"\x9b31m", `\x9b31m`, `\x9b31m`},       // and as one byte, which is no UTF-8
		{"\x7f", `\x7f`, `\x7f`},
		{"a\u202eb\u2066c", `a\u202eb\u2066c`, `a\u202eb\u2066c`}, // text that runs backwards
		{"\U000e0041", `\U000e0041`, `\U000e0041`},                // an invisible letter
		{"\ufffd", "\ufffd", `\ufffd`},
	} {
		if got := clean(tt.in, false); got != tt.want {
			t.Errorf("clean(%q) = %s, want %s", tt.in, got, tt.want)
		}
		if got := clean(tt.in, true); got != tt.ascii {
			t.Errorf("clean(%q, ascii) = %s, want %s", tt.in, got, tt.ascii)
		}
	}
}

// What is escaped in JSON has the same value, and no character of it is obeyed
// by a terminal.
func TestEncodeJSONHarmless(t *testing.T) {
	t.Parallel()
	want := map[string]string{"k\u009b": "\x1b[2J \u202e \x7f \U000e0041 <ü> \n"}
	text, err := encodeJSON(want, "  ")
	if err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && clean(string(r), false) != string(r) }); i >= 0 {
		t.Errorf("encodeJSON() = %q, want nothing that is not printable", text)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("encodeJSON() = %s: %v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("encodeJSON() after a round trip (-want +got):\n%s", diff)
	}
	raw, err := encodeJSON(json.RawMessage("\"a\x9bb\""), "")
	if err != nil || raw != `"a\ufffdb"`+"\n" {
		t.Errorf("encodeJSON(a stray byte) = %q, %v, want it replaced", raw, err)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "über": 4, "日本": 4, "e\u0301": 1, "├─": 2, "…": 1} {
		if got := columns(text); got != want {
			t.Errorf("columns(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestShortening(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text         string
		n            int
		squeeze, cut string
	}{
		{"abcdef", 6, "abcdef", "abcdef"},
		{"abcdef", 5, "ab…ef", "abcd…"},
		{"abcdef", 4, "ab…f", "abc…"},
		{"abcdef", 2, "a…", "a…"},
		{"abcdef", 1, "…", "…"},
		{"日本語日本語", 7, "日…本語", "日本語…"},
	} {
		if got := (style{}).cut(tt.text, tt.n); got != tt.cut {
			t.Errorf("cut(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.cut)
		}
		got := (style{}).squeeze(tt.text, tt.n)
		if columns(got) > tt.n {
			t.Errorf("squeeze(%q, %d) = %q of %d columns", tt.text, tt.n, got, columns(got))
		}
		if !strings.Contains(tt.text, "日") && got != tt.squeeze {
			t.Errorf("squeeze(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.squeeze)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:                         "0ms",
		42 * time.Millisecond:                "42ms",
		1204 * time.Millisecond:              "1.204s",
		9999900 * time.Microsecond:           "9.999s",
		42*time.Second + 99*time.Millisecond: "42.0s",
		3*time.Minute + 7*time.Second:        "3m07s",
		2*time.Hour + 5*time.Minute:          "2h05m",
		75 * time.Hour:                       "3d03h",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestStyleOfEnvironment(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		vars  map[string]string
		ascii bool
		width int
	}{
		{"nothing set", nil, false, 0},
		{"UTF-8", map[string]string{"LANG": "en_GB.UTF-8"}, false, 0},
		{"utf8", map[string]string{"LC_CTYPE": "de_DE.utf8", "LANG": "C"}, false, 0},
		{"LC_ALL counts most", map[string]string{"LC_ALL": "C", "LANG": "en_GB.UTF-8"}, true, 0},
		{"Latin-1", map[string]string{"LANG": "de_DE.ISO-8859-1"}, true, 0},
		{"COLUMNS", map[string]string{"COLUMNS": "72"}, false, 72},
		{"no COLUMNS", map[string]string{"COLUMNS": "wide"}, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := &env{stdout: &strings.Builder{}, lookupEnv: func(name string) (string, bool) { v, ok := tt.vars[name]; return v, ok }}
			got := e.style()
			if got.ascii != tt.ascii || got.width != tt.width || got.colour {
				t.Errorf("style() = %+v, want ascii %t, width %d, no colour beside a terminal", got, tt.ascii, tt.width)
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var tb table
	tb.add(cell{text: "a"}, cell{}, cell{text: "1", right: true}, cell{text: "x"})
	tb.add(cell{lead: "- ", text: "bb"}, cell{}, cell{text: "100", right: true}, cell{})
	want := "a       1  x\n- bb  100\n"
	if got := tb.draw(style{}); got != want {
		t.Errorf("draw() = %q, want %q", got, want)
	}
	if got := tb.columns(); got != 12 {
		t.Errorf("columns() = %d, want 12", got)
	}
}

// noVars is an environment in which nothing is set.
func noVars(string) (string, bool) { return "", false }
