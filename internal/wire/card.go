package wire

import (
	"cmp"
	"errors"
	"io"
	"slices"
)

// RewriteCard points every interface URL of an agent card somewhere else: the
// url and the additionalInterfaces of 0.3, the supportedInterfaces of 1.0. A
// card may have all of them, and a client takes whichever it knows, so one
// left alone is a way around.
//
// It calls rewrite once for each URL, in that order, with the binding as
// spelled ("JSONRPC", "HTTP+JSON", "GRPC"; "" if unstated) and the URL.
// rewrite returns the new URL and true, or false to drop that interface. The
// main url of 0.3 is required and cannot be dropped: it and preferredTransport
// then become those of the first interface that is kept, or else the url
// becomes empty, so that a client fails rather than going around.
//
// If anything changed, the card's signatures are removed: they sign the whole
// card (1.0 §8.4). Everything else stays byte for byte; a card that needs no
// change is returned itself, the same slice. Interfaces without a URL stay as
// they are. The error, for a card that is not a JSON object or that has
// duplicate keys, does not quote the card.
func RewriteCard(body []byte, rewrite func(binding, url string) (string, bool)) ([]byte, error) {
	d := newDecoder(body, strict)
	defer d.release()
	if kind := d.next(); kind != '{' && kind != 0 {
		return nil, errors.New("agent card is not a JSON object")
	}
	c := card{src: body}
	if err := c.read(d); err != nil {
		_, what := describe("agent card", err)
		return nil, errors.New(what)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("bytes after the agent card")
	}
	return c.rewritten(rewrite), nil
}

// RewriteCardResponse does what RewriteCard does for the card that is the
// result of a JSON-RPC response, as OpCard gets it. A response without an
// object as its result, such as an error, is returned itself.
func RewriteCardResponse(body []byte, rewrite func(binding, url string) (string, bool)) ([]byte, error) {
	d := newDecoder(body, strict)
	defer d.release()
	var result span
	err := d.members(func(name []byte) (err error) {
		if string(name) != "result" || d.next() != '{' {
			return d.skip()
		}
		result, err = d.value()
		return err
	})
	if err != nil {
		_, what := describe("response", err)
		return nil, errors.New(what)
	}
	if !result.found() {
		return body, nil
	}
	before := result.of(body)
	after, err := RewriteCard(before, rewrite)
	if err != nil || len(after) == len(before) && &after[0] == &before[0] {
		return body, err
	}
	return slices.Concat(body[:result.start], after, body[result.end:]), nil
}

// card is where the members of an agent card stand that a rewrite may touch.
type card struct {
	src        []byte
	url        span      // 0.3: the main interface
	preferred  span      // 0.3: its binding
	additional [][]iface // a list for each spelling of the key
	supported  [][]iface
	signatures member
}

// iface is one element of a list of interfaces.
type iface struct {
	at           span
	binding, url span
}

// defaultBinding is that of a card's main url where preferredTransport is
// absent (0.3 §5.6.1).
const defaultBinding = "JSONRPC"

func (c *card) read(d *decoder) error {
	if _, err := d.open(); err != nil {
		return err
	}
	for {
		name, nameAt, err := d.name()
		if err != nil {
			return err
		}
		if name == nil {
			_, err := d.close()
			return err
		}
		var list []iface
		switch string(name) {
		case "url":
			c.url, err = d.value()
		case "preferredTransport", "preferred_transport":
			c.preferred, err = d.value()
		case "additionalInterfaces", "additional_interfaces":
			list, err = readInterfaces(d)
			c.additional = append(c.additional, list)
		case "supportedInterfaces", "supported_interfaces":
			list, err = readInterfaces(d)
			c.supported = append(c.supported, list)
		case "signatures":
			c.signatures.name = nameAt
			c.signatures.value, err = d.value()
		default:
			err = d.skip()
		}
		if err != nil {
			return err
		}
	}
}

// readInterfaces reads a list of interfaces; of anything else it returns nil.
func readInterfaces(d *decoder) (list []iface, err error) {
	err = d.elements(func() error {
		i := iface{at: span{start: d.offset()}}
		err := d.members(func(name []byte) (err error) {
			switch string(name) {
			case "url":
				i.url, err = d.value()
			case "protocolBinding", "protocol_binding", "transport":
				i.binding, err = d.value()
			default:
				err = d.skip()
			}
			return err
		})
		i.at.end = int(d.json.InputOffset())
		list = append(list, i)
		return err
	})
	return list, err
}

// rewritten returns the card after every URL has been through rewrite.
func (c *card) rewritten(rewrite func(binding, url string) (string, bool)) []byte {
	var (
		edits []edit
		first *kept // of the interfaces that stay
	)
	mainURL, hasMain := unquote(c.url.of(c.src))
	hasMain = hasMain && mainURL != ""
	mainBinding := defaultBinding
	if b, ok := unquote(c.preferred.of(c.src)); ok && b != "" {
		mainBinding = b
	}
	newMain, keepMain := mainURL, true
	if hasMain {
		newMain, keepMain = rewrite(mainBinding, mainURL)
	}
	for _, list := range slices.Concat(c.additional, c.supported) {
		more, k := c.rewriteList(list, rewrite)
		edits = append(edits, more...)
		first = cmp.Or(first, k)
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
		edits = append(edits, edit{c.url, quote(newMain)})
	}
	if newBinding != mainBinding {
		if c.preferred.found() {
			edits = append(edits, edit{c.preferred, quote(newBinding)})
		} else {
			added := slices.Concat([]byte(`,"preferredTransport":`), quote(newBinding))
			edits = append(edits, edit{span{c.url.end, c.url.end}, added})
		}
	}
	if len(edits) == 0 {
		return c.src
	}
	if c.signatures.value.found() {
		edits = append(edits, edit{without(c.src, c.signatures), nil})
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		// An insertion comes before a removal that starts at the same place.
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	return apply(c.src, edits)
}

// kept is an interface after the rewrite.
type kept struct{ binding, url string }

// rewriteList returns the edits for a list of interfaces, and the first one
// that is kept and has a URL.
func (c *card) rewriteList(list []iface, rewrite func(binding, url string) (string, bool)) (edits []edit, first *kept) {
	stays := false // whether an element before this one does
	for n, i := range list {
		url, ok := unquote(i.url.of(c.src))
		if !ok || url == "" {
			stays = true
			continue
		}
		binding, _ := unquote(i.binding.of(c.src))
		now, keep := rewrite(binding, url)
		switch {
		case keep:
			stays = true
			if first == nil {
				first = &kept{binding, now}
			}
			if now != url {
				edits = append(edits, edit{i.url, quote(now)})
			}
		// A dropped element takes one comma along: the one before it, or where
		// nothing before it stays, the one after it.
		case stays:
			edits = append(edits, edit{span{list[n-1].at.end, i.at.end}, nil})
		case n+1 < len(list):
			edits = append(edits, edit{span{i.at.start, list[n+1].at.start}, nil})
		default:
			edits = append(edits, edit{i.at, nil})
		}
	}
	return edits, first
}
