package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxTreeDepth is the deepest that any session may be (design: kinds).
const maxTreeDepth = 4

// minReconcile keeps the sidecar from overrunning an agent with questions.
const minReconcile = time.Second

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123
	headerPrefix = regexp.MustCompile("^[a-z0-9!#$%&'*+.^_`|~-]+-$")          // RFC 9110 token, lower case
)

// Validate reports everything wrong with c, as [Faults]. It changes nothing.
// Faults that it finds have no place; [Load] adds those.
func (c *Config) Validate() error { return c.faults().err() }

func (c *Config) faults() Faults {
	var k checker
	k.enumerations(c)
	k.local(c)
	taken := map[string]string{} // address → key
	k.listen(c, taken)
	k.push(c, taken)
	k.agents(c, taken)
	k.limits("limits", c.Limits)
	k.store(c.Store)
	k.positive("retain", c.Retain)
	k.positive("limitsHTTP.headerTimeout", c.LimitsHTTP.HeaderTimeout)
	k.size("limitsHTTP.maxBody", c.LimitsHTTP.MaxBody)
	k.size("limitsHTTP.maxHeader", c.LimitsHTTP.MaxHeader)
	k.size("record.maxBytes", c.Record.MaxBytes)
	for i, p := range c.Record.Redact {
		k.pattern(item("record.redact", i), p)
	}
	if p := c.Lineage.HeaderPrefix; !headerPrefix.MatchString(p) {
		k.require("lineage.headerPrefix", p, "is not the start of a lower-case HTTP header name that ends in -", "such as x-kagent-")
	}
	for i, p := range c.Lineage.Trust {
		if !p.IsValid() {
			k.add(item("lineage.trust", i), "", "is not a network", "")
		}
	}
	k.pending(c)
	return k.faults
}

// checker collects faults.
type checker struct{ faults Faults }

func (k *checker) add(key, value, problem, hint string) {
	k.faults = append(k.faults, newFault("", key, value, problem, hint))
}

// require adds a fault of a value that must be there: of an empty one, that it
// is missing.
func (k *checker) require(key, value, problem, hint string) {
	if value == "" {
		problem = "is missing"
	}
	k.add(key, value, problem, hint)
}

// enumerations checks every enumerated value. The loader has done so for what it
// read; this is for configurations made in code.
func (k *checker) enumerations(c *Config) {
	walk(reflect.ValueOf(c).Elem(), "", func(key string, v reflect.Value) {
		e, ok := reflect.TypeAssert[enumeration](v)
		if !ok || slices.Contains(e.values(), v.String()) {
			return
		}
		if _, optional := e.(Inherit); optional && v.String() == "" {
			return
		}
		k.require(key, v.String(), "is not one of "+strings.Join(e.values(), ", "), didYouMean(v.String(), e.values()))
	})
}

func (k *checker) local(c *Config) {
	switch name := c.Local.Name; {
	case strings.TrimSpace(name) == "":
		k.add("local.name", "", "is missing", "")
	case !dnsLabel.MatchString(name): // it stands in branch labels, whose segments have no dots
		k.require("local.name", name, "is not a DNS label", "lower-case letters, digits and -, at most 63")
	}
	if c.Local.URL != "" || c.Listen.Inbound != "" {
		k.url("local.url", c.Local.URL)
	}
}

// listen checks the addresses of the sidecar itself, and adds them to taken.
func (k *checker) listen(c *Config, taken map[string]string) {
	addresses := []struct {
		key, addr string
		optional  bool
		tls       ServerTLS
	}{
		{"outbound", c.Listen.Outbound, false, c.Listen.TLS.Outbound},
		{"inbound", c.Listen.Inbound, true, c.Listen.TLS.Inbound},
		{"admin", c.Listen.Admin, false, c.Listen.TLS.Admin},
	}
	for _, a := range addresses {
		key, tlsKey := "listen."+a.key, "listen.tls."+a.key
		k.pair(tlsKey, a.tls.Cert, a.tls.Key)
		if a.tls.CA != "" && a.tls.Cert == "" {
			k.add(tlsKey+".ca", a.tls.CA, "checks clients of a listener that has no certificate", "set cert and key too")
		}
		if a.addr == "" && a.optional {
			continue
		}
		k.ownAddress(key, a.addr, taken)
	}
	if c.Admin.Token.File == "" && exposed(c.Listen.Admin) {
		k.add("listen.admin", c.Listen.Admin, "is not a loopback address, and there is no admin.token.file",
			"set admin.token.file, or listen on 127.0.0.1")
	}
}

// push checks where callbacks come in.
func (k *checker) push(c *Config, taken map[string]string) {
	p := c.Push
	if p.URL != "" {
		k.url("push.url", p.URL)
	}
	switch {
	case p.Listen == "" && p.URL != "":
		k.add("push.url", p.URL, "is set, but push.listen is off", "set push.listen, such as 127.0.0.1:8403")
	case p.Listen == "":
	case k.ownAddress("push.listen", p.Listen, taken) && p.URL == "" && unspecified(p.Listen):
		k.add("push.url", "", "is missing: push.listen binds every interface, which is no address to reach it by",
			"such as http://sidecar.example.com:8403")
	}
}

// unspecified reports whether a well-formed addr binds all interfaces.
func unspecified(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return err == nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsUnspecified()
}

// ownAddress checks a host:port to listen on that must not be taken, and takes it.
func (k *checker) ownAddress(key, addr string, taken map[string]string) bool {
	if !k.address(key, addr) {
		return false
	}
	if other, dup := taken[addr]; dup && !strings.HasSuffix(addr, ":0") {
		k.add(key, addr, "is the address of "+other+" too", "")
		return false
	}
	taken[addr] = key
	return true
}

// address checks a host:port to listen on.
func (k *checker) address(key, addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, "/ ") {
		k.require(key, addr, "is not host:port", "such as 127.0.0.1:8400")
		return false
	}
	return true
}

// exposed reports whether a well-formed addr can be reached from elsewhere. A
// host name counts as such, but for localhost: it may resolve to anything.
func exposed(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

func (k *checker) agents(c *Config, taken map[string]string) {
	first := map[string]int{} // name → index
	for i, a := range c.Agents {
		key := item("agents", i)
		if !dnsLabel.MatchString(a.Name) {
			k.require(key+".name", a.Name, "is not a DNS label", "lower-case letters, digits and -, at most 63")
		} else if j, dup := first[a.Name]; dup {
			k.add(key+".name", a.Name, "is the name of "+item("agents", j)+" too", "")
		} else {
			first[a.Name] = i
		}
		k.url(key+".url", a.URL)
		k.pair(key+".tls", a.TLS.Cert, a.TLS.Key)
		if a.TLS != (ClientTLS{}) && strings.HasPrefix(a.URL, "http:") && !strings.HasPrefix(a.GRPC.URL, "https:") {
			k.add(key+".tls", "", "is set, but the url is http", "write https, or leave tls out")
		}
		k.grpc(key+".grpc", a.GRPC, taken)
		if a.Push == PushRelay && c.Push.Listen == "" {
			k.add(key+".push", string(a.Push), "needs a listener for what agents send", "set push.listen, such as 127.0.0.1:8403")
		}
		for j, file := range a.Cards.Verify {
			if strings.TrimSpace(file) == "" {
				k.add(item(key+".cards.verify", j), "", "is missing", "the path to a file with public keys")
			}
		}
		if a.TTL != nil {
			k.positive(key+".ttl", *a.TTL)
		}
		if a.Reconcile != 0 && a.Reconcile < minReconcile {
			k.add(key+".reconcile", a.Reconcile.String(), "is neither 0 nor "+minReconcile.String()+" or more", "0 never asks")
		}
		k.atLeastZero(key+".limits.maxConcurrent", a.Limits.MaxConcurrent)
		k.overrides(key+".limits", a.Limits, c.LimitsFor(a))
	}
}

// grpc checks an agent's gRPC interface and the port for it.
func (k *checker) grpc(key string, g GRPC, taken map[string]string) {
	if addr, on := g.Addr(); on && g.Listen != "" && k.ownAddress(key+".listen", addr, taken) && exposed(addr) {
		k.add(key+".listen", addr, "is not a loopback address", "such as 127.0.0.1:8410, or off")
	}
	if g.URL == "" {
		return
	}
	before := len(k.faults)
	k.url(key+".url", g.URL)
	if u, err := url.Parse(g.URL); err == nil && before == len(k.faults) && strings.Trim(u.EscapedPath(), "/") != "" {
		k.add(key+".url", g.URL, "has a path", "gRPC has none: write http://HOST:PORT or https://HOST:PORT")
	}
}

// overrides checks the caps that an agent has of its own, whose values are those
// of l.
func (k *checker) overrides(key string, own AgentLimits, l Limits) {
	var all checker
	all.limits(key, l)
	set := map[string]bool{
		"maxDepth":     own.MaxDepth != nil,
		"maxChildren":  own.MaxChildren != nil,
		"maxFanOut":    own.MaxFanOut != nil,
		"maxSessions":  own.MaxSessions != nil,
		"maxVisits":    own.MaxVisits != nil,
		"queueTimeout": own.QueueTimeout != nil,
	}
	for _, f := range all.faults {
		if set[strings.TrimPrefix(f.Key, key+".")] {
			k.faults = append(k.faults, f)
		}
	}
}

func (k *checker) limits(key string, l Limits) {
	if l.MaxDepth < 1 || l.MaxDepth > maxTreeDepth {
		k.add(key+".maxDepth", strconv.Itoa(l.MaxDepth), fmt.Sprintf("is not within 1 to %d", maxTreeDepth), "")
	}
	k.atLeastZero(key+".maxChildren", l.MaxChildren)
	k.atLeastZero(key+".maxFanOut", l.MaxFanOut)
	k.atLeastZero(key+".maxSessions", l.MaxSessions)
	k.atLeastZero(key+".maxVisits", l.MaxVisits)
	if l.QueueTimeout < 0 {
		k.add(key+".queueTimeout", l.QueueTimeout.String(), "is negative", "0 never waits")
	}
	if l.Grace < 0 {
		k.add(key+".grace", l.Grace.String(), "is negative", "0 ends work at once")
	}
}

func (k *checker) atLeastZero(key string, n int) {
	if n < 0 {
		k.add(key, strconv.Itoa(n), "is negative", "0 switches the cap off")
	}
}

func (k *checker) positive(key string, d time.Duration) {
	if d <= 0 {
		k.add(key, d.String(), "is not more than 0", "")
	}
}

func (k *checker) size(key string, s Size) {
	if s <= 0 {
		k.add(key, s.String(), "is not more than 0", "")
	}
}

// pair checks that a certificate and its key are given together.
func (k *checker) pair(group, cert, key string) {
	switch {
	case cert != "" && key == "":
		k.add(group+".key", "", "is missing", "cert and key go together")
	case cert == "" && key != "":
		k.add(group+".cert", "", "is missing", "cert and key go together")
	}
}

// url checks the base URL of an agent.
func (k *checker) url(key, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		k.require(key, text, "is not an http or https URL with a host", "such as http://worker:8080")
	case u.User != nil:
		k.add(key, text, "holds credentials", "callers send their own; leave them out")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		k.add(key, text, "has a query or a fragment", "a base URL has neither")
	}
}

// pattern checks an RE2 pattern.
func (k *checker) pattern(key, text string) {
	if text == "" {
		k.add(key, text, "is missing", "an empty pattern would match everywhere")
		return
	}
	_, err := regexp.Compile(text)
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		k.add(key, text, "is not an RE2 pattern", e.Code.String())
	}
}
