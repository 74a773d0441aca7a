package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// style says how text for people looks. The zero style is plain, without
// bounds, in UTC.
type style struct {
	colour bool
	ascii  bool           // nothing but ASCII
	width  int            // columns that there are; 0: as many as are needed
	zone   *time.Location // of times; nil: UTC
}

// style returns the style of standard output. Colour and a width are for
// terminals only; NO_COLOR (no-color.org), COLUMNS and the locale are honoured.
func (e *env) style() style {
	st := style{ascii: !speaksUTF8(e.getenv), zone: time.Local}
	if fd, ok := terminal(e.stdout); ok {
		st.colour = e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb"
		if columns, _, err := term.GetSize(fd); err == nil {
			st.width = columns
		}
	}
	if columns, err := strconv.Atoi(e.getenv("COLUMNS")); err == nil && columns > 0 {
		st.width = columns
	}
	return st
}

func terminal(w io.Writer) (fd int, ok bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// speaksUTF8 reads the locale. Containers mostly set none, with a terminal on
// the other end that speaks UTF-8; so only one that says otherwise counts.
func speaksUTF8(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	return locale == "" || strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

func (st style) local(t time.Time) time.Time {
	if st.zone == nil {
		return t.UTC()
	}
	return t.In(st.zone)
}

// or returns plain in a style that is ASCII.
func (st style) or(fancy, plain string) string {
	if st.ascii {
		return plain
	}
	return fancy
}

// Colours, as the parameters of an SGR sequence.
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (st style) paint(text, sgr string) string {
	if !st.colour || sgr == plain || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

// clean makes text from outside harmless on one line of a terminal: what is
// not printable is spelled as in a Go string, and so is what is not ASCII where
// only that can be shown.
func clean(text string, ascii bool) string {
	ok := func(r rune) bool { return strconv.IsPrint(r) && (!ascii || r < utf8.RuneSelf) }
	if !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !ok(r) }) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case ok(r):
			b.WriteRune(r)
		default:
			escaped := strconv.QuoteRuneToASCII(r)
			b.WriteString(escaped[1 : len(escaped)-1])
		}
		text = text[size:]
	}
	return b.String()
}

// cleanJSON does the same for JSON, whose value stays what it is.
func cleanJSON(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\ufffd`)
		case r == '\n' || strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// columns returns how many columns text takes on a terminal.
func columns(text string) int {
	n := 0
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// squeeze shortens text in the middle to at most n columns: ids differ at their
// ends.
func (st style) squeeze(text string, n int) string {
	if columns(text) <= n {
		return text
	}
	dots := st.or("…", "..")
	runes := []rune(text)
	for keep := len(runes) - 1; keep > 0; keep-- {
		short := string(runes[:(keep+1)/2]) + dots + string(runes[len(runes)-keep/2:])
		if columns(short) <= n {
			return short
		}
	}
	return dots
}

// cut shortens text at its end to at most n columns.
func (st style) cut(text string, n int) string {
	if columns(text) <= n {
		return text
	}
	dots := st.or("…", "..")
	room := n - columns(dots)
	for i, r := range text {
		if room -= columns(string(r)); room < 0 {
			return text[:i] + dots
		}
	}
	return text
}

// plural spells a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// span spells a duration as exactly as one cares at its size.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.3fs", d.Truncate(time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// clock spells a time of the day of now, and any other with its date.
func (st style) clock(t, now time.Time) string {
	t, now = st.local(t), st.local(now)
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
