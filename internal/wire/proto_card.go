package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoCardShape is where an agent card has what a rewrite may touch. A number
// of 0 is that of no field.
type protoCardShape struct {
	url, preferred         protowire.Number // 0.3: the main interface
	interfaces, signatures protowire.Number
}

var (
	cardV03 = protoCardShape{url: 3, preferred: 14, interfaces: 15, signatures: 17}
	cardV10 = protoCardShape{interfaces: 3, signatures: 13}
)

// The fields of an AgentInterface, in either version.
const (
	interfaceURL     protowire.Number = 1
	interfaceBinding protowire.Number = 2
)

// RewriteProtoCard does what RewriteCard does for the AgentCard that a gRPC
// answer to OpCard is. The error, for a card that is not protobuf or has a URL
// or a binding twice, does not quote the card.
func RewriteProtoCard(v Version, msg []byte, rewrite func(binding, url string) (string, bool)) ([]byte, error) {
	c := protoCard{src: msg, shape: cardV03}
	if v == V10 {
		c.shape = cardV10
	}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("reading the agent card: %w", err)
	}
	return c.rewritten(rewrite), nil
}

// protoCard is where the fields of an agent card stand that a rewrite may
// touch.
type protoCard struct {
	src            []byte
	shape          protoCardShape
	url, preferred protoField
	interfaces     []protoInterface
	signatures     []span
}

// protoInterface is one of a card's interfaces.
type protoInterface struct{ all, url, binding protoField }

var errTwice = errors.New("a URL or a binding occurs twice")

func (c *protoCard) read() error {
	r := newProtoReader(c.src, span{0, len(c.src)})
	for r.next() {
		if r.field.typ != protowire.BytesType {
			continue
		}
		var err error
		switch r.field.num {
		case c.shape.url:
			err = c.url.take(r.field)
		case c.shape.preferred:
			err = c.preferred.take(r.field)
		case c.shape.interfaces:
			i := protoInterface{all: r.field}
			err = i.read(c.src)
			c.interfaces = append(c.interfaces, i)
		case c.shape.signatures:
			c.signatures = append(c.signatures, r.field.at)
		default: // stays as it is
		}
		if err != nil {
			return err
		}
	}
	return r.err
}

func (i *protoInterface) read(src []byte) error {
	r := newProtoReader(src, i.all.value)
	for r.next() {
		if r.field.typ != protowire.BytesType {
			continue
		}
		var err error
		switch r.field.num {
		case interfaceURL:
			err = i.url.take(r.field)
		case interfaceBinding:
			err = i.binding.take(r.field)
		default: // stays as it is
		}
		if err != nil {
			return err
		}
	}
	return r.err
}

// take makes f the field, which must be the first of its number.
func (f *protoField) take(field protoField) error {
	if f.value.found() {
		return errTwice
	}
	*f = field
	return nil
}

// text returns the string that a field holds, "" if it is absent.
func (c *protoCard) text(f protoField) string { return string(f.value.of(c.src)) }

// rewritten returns the card after every URL has been through rewrite.
func (c *protoCard) rewritten(rewrite func(binding, url string) (string, bool)) []byte {
	var (
		edits []edit
		first *kept // of the interfaces that stay
	)
	mainURL, mainBinding := c.text(c.url), cmp.Or(c.text(c.preferred), defaultBinding)
	newMain, keepMain := mainURL, true
	if mainURL != "" {
		newMain, keepMain = rewrite(mainBinding, mainURL)
	}
	for _, i := range c.interfaces {
		url, binding := c.text(i.url), c.text(i.binding)
		if url == "" {
			continue
		}
		now, keep := rewrite(binding, url)
		switch {
		case !keep:
			edits = append(edits, edit{i.all.at, nil})
			continue
		case now != url:
			edits = append(edits, protoPlace{around: []protoField{i.all}, field: i.url}.set(c.src, now)...)
		}
		if first == nil {
			first = &kept{binding, now}
		}
	}

	newBinding := mainBinding
	switch {
	case keepMain:
	case first != nil:
		newMain, newBinding = first.url, cmp.Or(first.binding, mainBinding)
	default:
		newMain = ""
	}
	if newMain != mainURL {
		edits = append(edits, protoPlace{field: c.url}.set(c.src, newMain)...)
	}
	if newBinding != mainBinding {
		edits = append(edits, protoPlace{num: c.shape.preferred, field: c.preferred}.set(c.src, newBinding)...)
	}
	if len(edits) == 0 {
		return c.src
	}
	for _, at := range c.signatures {
		edits = append(edits, edit{at, nil})
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	return apply(c.src, edits)
}
