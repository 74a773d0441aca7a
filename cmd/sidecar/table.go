package main

import (
	"strings"
)

// table is text in aligned columns, two spaces apart. Columns that are empty
// in all rows are left out.
type table struct {
	rows [][]cell
}

// cell is one text of a table. Its text has been cleaned.
type cell struct {
	lead  string // before the text, dim: the lines of a tree
	text  string
	sgr   string // colour of the text
	right bool   // stands at the right of its column
}

func (c cell) columns() int { return columns(c.lead) + columns(c.text) }

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// widths returns how wide each column is.
func (t *table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], c.columns())
		}
	}
	return widths
}

// columns returns how wide the whole table is.
func (t *table) columns() int {
	n := -len(gap)
	for _, w := range t.widths() {
		if w > 0 {
			n += w + len(gap)
		}
	}
	return max(n, 0)
}

const gap = "  "

// draw returns the rows, one on each line.
func (t *table) draw(st style) string {
	widths := t.widths()
	var b strings.Builder
	for _, row := range t.rows {
		space := "" // owed before the next text: lines end without any
		for i, c := range row {
			if widths[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-c.columns())
			if c.right {
				space, pad = space+pad, ""
			}
			if c.lead != "" || c.text != "" {
				b.WriteString(space + st.paint(c.lead, dim) + st.paint(c.text, c.sgr))
				space = ""
			}
			space += pad + gap
		}
		b.WriteByte('\n')
	}
	return b.String()
}
