package wire_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func TestRewriteProtoCard(t *testing.T) {
	t.Parallel()
	iface := func(url, binding string) pb { return pb{}.str(1, url).str(2, binding) }
	name := pb{}.str(1, "agent").num(99, 7)
	for _, tt := range []struct {
		name     string
		version  wire.Version
		in, want pb // want nil: in itself
	}{
		{"nothing", wire.V10, nil, nil},
		{"no interfaces", wire.V10, name.msg(13, pb{}.str(1, "sig")), nil},
		{"1.0", wire.V10, name.msg(3, iface("u", "JSONRPC").str(3, "tenant")), name.msg(3, iface("side:JSONRPC:u", "JSONRPC").str(3, "tenant"))},
		{"1.0 binding first", wire.V10, pb{}.msg(3, pb{}.str(2, "X").str(1, "u")), pb{}.msg(3, pb{}.str(2, "X").str(1, "side:X:u"))},
		{"1.0 without binding", wire.V10, pb{}.msg(3, pb{}.str(1, "u")), pb{}.msg(3, pb{}.str(1, "side::u"))},
		{"1.0 without URL", wire.V10, pb{}.msg(3, pb{}.str(2, "GRPC")).msg(3, iface("", "GRPC")).msg(13, nil), nil},
		{"1.0 signatures go", wire.V10, pb{}.msg(13, pb{}.str(1, "a")).msg(3, iface("u", "X")).msg(13, pb{}.str(1, "b")).str(5, "v"), pb{}.msg(3, iface("side:X:u", "X")).str(5, "v")},
		{"1.0 drop", wire.V10, pb{}.msg(3, iface("g", "GRPC")).str(5, "v").msg(3, iface("u", "X")), pb{}.str(5, "v").msg(3, iface("side:X:u", "X"))},
		{"1.0 drop all", wire.V10, pb{}.msg(3, iface("g", "GRPC")).msg(13, nil), pb{}},

		{"0.3", wire.V03, name.str(3, "u").str(14, "HTTP+JSON").msg(17, pb{}.str(1, "sig")), name.str(3, "side:HTTP+JSON:u").str(14, "HTTP+JSON")},
		{"0.3 default binding", wire.V03, pb{}.str(3, "u"), pb{}.str(3, "side:JSONRPC:u")},
		{"0.3 additional", wire.V03, pb{}.msg(15, iface("v", "X")).str(3, "u"), pb{}.msg(15, iface("side:X:v", "X")).str(3, "side:JSONRPC:u")},
		{"0.3 has no field 13 of ours", wire.V03, pb{}.num(13, 1).str(3, "u"), pb{}.num(13, 1).str(3, "side:JSONRPC:u")},
		{"0.3 main dropped", wire.V03, pb{}.str(3, "g").str(14, "GRPC").msg(15, iface("g", "GRPC")).msg(15, iface("u", "X")), pb{}.str(3, "side:X:u").str(14, "X").msg(15, iface("side:X:u", "X"))},
		{"0.3 main dropped, two kept", wire.V03, pb{}.str(3, "g").str(14, "GRPC").msg(15, iface("u", "X")).msg(15, iface("v", "Y")), pb{}.str(3, "side:X:u").str(14, "X").msg(15, iface("side:X:u", "X")).msg(15, iface("side:Y:v", "Y"))},
		{"0.3 main dropped, for one without a binding", wire.V03, pb{}.str(3, "g").str(14, "GRPC").msg(15, pb{}.str(1, "u")), pb{}.str(3, "side::u").str(14, "GRPC").msg(15, pb{}.str(1, "side::u"))},
		{"0.3 main dropped, none kept", wire.V03, pb{}.str(3, "g").str(14, "GRPC").str(5, "v"), pb{}.str(14, "GRPC").str(5, "v")},
		{"0.3 empty URL", wire.V03, pb{}.str(3, "").str(14, "GRPC"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := bytes.Clone(tt.in)
			got, err := wire.RewriteProtoCard(tt.version, tt.in, toSidecar)
			switch {
			case err != nil:
				t.Errorf("RewriteProtoCard(%x) = %v, want no error", tt.in, err)
			case tt.want == nil && !same(got, tt.in):
				t.Errorf("RewriteProtoCard(%x) = %x, want the card itself", tt.in, got)
			case tt.want != nil && !bytes.Equal(got, tt.want):
				t.Errorf("RewriteProtoCard(%x) =\n%x, want\n%x", tt.in, got, tt.want)
			}
			if !bytes.Equal(tt.in, before) {
				t.Errorf("after RewriteProtoCard the card is %x, want %x", tt.in, before)
			}
		})
	}
}

// preferred_transport is absent, so its default would misname the new URL.
func TestRewriteProtoCardInsertsTransport(t *testing.T) {
	t.Parallel()
	in := pb{}.str(3, "main").msg(15, pb{}.str(1, "u").str(2, "HTTP+JSON")).msg(17, nil)
	got, err := wire.RewriteProtoCard(wire.V03, in, func(_, url string) (string, bool) { return url, url != "main" })
	want := pb{}.str(3, "u").msg(15, pb{}.str(1, "u").str(2, "HTTP+JSON")).str(14, "HTTP+JSON")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("RewriteProtoCard(%x) = %x, %v, want %x", in, got, err, want)
	}
}

func TestRewriteProtoCardOrder(t *testing.T) {
	t.Parallel()
	in := pb{}.msg(15, pb{}.str(1, "2").str(2, "B")).msg(15, pb{}.str(1, "3").str(2, "C")).str(14, "A").str(3, "1")
	var calls []string
	got, err := wire.RewriteProtoCard(wire.V03, in, func(binding, url string) (string, bool) {
		calls = append(calls, binding+url)
		return url, true
	})
	if err != nil || !same(got, in) {
		t.Errorf("RewriteProtoCard(%x) = %x, %v, want the card itself", in, got, err)
	}
	if diff := cmp.Diff([]string{"A1", "B2", "C3"}, calls); diff != "" {
		t.Errorf("RewriteProtoCard(%x) calls rewrite (-want +got):\n%s", in, diff)
	}
}

func TestRewriteProtoCardRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		version wire.Version
		in      pb
		want    string
	}{
		{wire.V10, pb{0x80}, "reading the agent card: it ends early"},
		{wire.V10, pb{}.str(3, "\x07"), "reading the agent card: syntax error"},
		{wire.V10, pb{}.msg(3, pb{}.str(1, "a").str(1, "b")), "reading the agent card: a URL or a binding occurs twice"},
		{wire.V10, pb{}.msg(3, pb{}.str(2, "a").str(2, "b")), "reading the agent card: a URL or a binding occurs twice"},
		{wire.V03, pb{}.str(3, "a").str(3, "b"), "reading the agent card: a URL or a binding occurs twice"},
		{wire.V03, pb{}.str(14, "a").str(14, "b"), "reading the agent card: a URL or a binding occurs twice"},
	} {
		if got, err := wire.RewriteProtoCard(tt.version, tt.in, toSidecar); err == nil || err.Error() != tt.want {
			t.Errorf("RewriteProtoCard(%v, %x) = %x, %v, want %q", tt.version, tt.in, got, err, tt.want)
		}
	}
}

// What the SDK reads of a card is what it read before, but for the URLs, the
// interfaces that were dropped, and the signatures.
func TestRewriteProtoCardProperty(t *testing.T) {
	t.Parallel()
	for _, m := range sdkMethods(t) {
		if m.Op != wire.OpCard {
			continue
		}
		t.Run(m.Version.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				in := shuffled(t, marshal(t, drawMessage(t, m.desc.Output(), 3)), m.desc.Output())
				drop := rapid.StringN(0, 2, -1).Draw(t, "dropped if it begins with that")
				rewrite := func(_, url string) (string, bool) { return "side:" + url, drop == "" || url[:1] != drop[:1] }
				got, err := wire.RewriteProtoCard(m.Version, in, rewrite)
				if err != nil {
					t.Fatalf("RewriteProtoCard(%x) = %v, want no error", in, err)
				}
				want := unmarshal(t, in, m.response())
				rewriteSDKCard(want.ProtoReflect(), rewrite)
				if after := unmarshal(t, got, m.response()); !proto.Equal(want, after) {
					t.Errorf("RewriteProtoCard() = %v, want %v", after, want)
				}
			})
		})
	}
}

// rewriteSDKCard does to a card what RewriteProtoCard does, by its fields.
func rewriteSDKCard(card protoreflect.Message, rewrite func(binding, url string) (string, bool)) {
	list := card.Mutable(fieldOf(card, []protoreflect.Name{"supported_interfaces", "additional_interfaces"})).List()
	var stay []protoreflect.Message
	var first protoreflect.Message
	changed := false
	for i := range list.Len() {
		iface := list.Get(i).Message()
		if url := str(iface, "url"); url != "" {
			changed = true
			now, keep := rewrite("", url)
			if !keep {
				continue
			}
			setText(iface, "url", now)
			if first == nil {
				first = iface
			}
		}
		stay = append(stay, iface)
	}
	list.Truncate(0)
	for _, iface := range stay {
		list.Append(protoreflect.ValueOfMessage(iface))
	}
	if main := str(card, "url"); main != "" {
		changed = true
		now, keep := rewrite("", main)
		switch {
		case keep:
		case first != nil:
			now = str(first, "url")
			binding := str(card, "preferred_transport")
			if binding == "" {
				binding = "JSONRPC"
			}
			if b := str(first, "transport"); b != "" && b != binding {
				setText(card, "preferred_transport", b)
			}
		default:
			now = ""
		}
		setText(card, "url", now)
	}
	if changed {
		card.Clear(fieldOf(card, []protoreflect.Name{"signatures"}))
	}
}

func TestRewriteProtoPush(t *testing.T) {
	t.Parallel()
	config10 := func(url string) pb { return pb{}.str(2, "p").str(3, "t").str(4, url).str(5, "tok").num(99, 1) }
	config03 := func(url string) pb {
		return pb{}.str(1, "tasks/t/pushNotificationConfigs/p").msg(2, pb{}.str(1, "p").str(2, url).str(3, "tok")).num(99, 1)
	}
	const u, w = "http://relay/1", "http://original/much/longer/than/before?so=that&the=length&of=every&message=around&it=takes&one=byte&more=than&it=did&before=now"
	for _, tt := range []struct {
		name     string
		version  wire.Version
		op       wire.Op
		in, want pb // want nil: in itself
	}{
		{"set", wire.V10, wire.OpPushSet, config10(u), config10(w)},
		{"get", wire.V10, wire.OpPushGet, config10(u), config10(w)},
		{"list", wire.V10, wire.OpPushList, pb{}.msg(1, config10(u)).msg(1, config10("other")).msg(1, config10(u)).str(2, "next"), pb{}.msg(1, config10(w)).msg(1, config10("other")).msg(1, config10(w)).str(2, "next")},
		{"a URL that is there twice", wire.V10, wire.OpPushList, pb{}.msg(1, config10(u).str(4, u)), pb{}.msg(1, config10(w).str(4, w))},
		{"set 0.3", wire.V03, wire.OpPushSet, config03(u), config03(w)},
		{"get 0.3", wire.V03, wire.OpPushGet, config03(u), config03(w)},
		{"list 0.3", wire.V03, wire.OpPushList, pb{}.msg(1, config03("other")).msg(1, config03(u)), pb{}.msg(1, config03("other")).msg(1, config03(w))},
		{"nothing to change", wire.V10, wire.OpPushGet, config10("other"), nil},
		{"nothing to change in a list", wire.V03, wire.OpPushList, pb{}.msg(1, config03("other")), nil},
		{"empty", wire.V10, wire.OpPushGet, nil, nil},
		{"empty URL", wire.V10, wire.OpPushGet, config10(""), nil},
		{"deleted", wire.V10, wire.OpPushDelete, config10(u), nil},
		{"a task", wire.V10, wire.OpGet, config10(u), nil},
		{"not a URL", wire.V10, wire.OpPushGet, pb{}.num(4, 1), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.RewriteProtoPush(tt.version, tt.op, tt.in, func(url string) string {
				if url == "" {
					t.Errorf("RewriteProtoPush(%x) calls each with nothing", tt.in)
				}
				if url == u {
					return w
				}
				return url
			})
			switch {
			case err != nil:
				t.Errorf("RewriteProtoPush(%x) = %v, want no error", tt.in, err)
			case tt.want == nil && !same(got, tt.in):
				t.Errorf("RewriteProtoPush(%x) = %x, want the answer itself", tt.in, got)
			case tt.want != nil && !bytes.Equal(got, tt.want):
				t.Errorf("RewriteProtoPush(%x) =\n%x, want\n%x", tt.in, got, tt.want)
			}
		})
	}
	for _, in := range []pb{{0x80}, slices.Concat(pb{}.msg(1, config10(u)), pb{0x07}), pb{}.str(1, "\x80")} {
		const want = "push configuration is not protobuf: "
		if got, err := wire.RewriteProtoPush(wire.V10, wire.OpPushList, in, func(string) string { return w }); err == nil || err.Error()[:len(want)] != want {
			t.Errorf("RewriteProtoPush(%x) = %x, %v, want %q", in, got, err, want)
		}
	}
}
