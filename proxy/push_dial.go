package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// errForbidden: a push notification's target is at an address where none can be.
var errForbidden = errors.New("address is not one for push notifications")

// targetTransport returns the transport to where push notifications go. Those
// places are named by callers, and what is sent there by agents, so it keeps
// away from what no caller can mean: see [forbidden].
func targetTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second,
		// Here the name has been looked up: what is judged is what is connected to.
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || forbidden(to.Addr()) {
				return fmt.Errorf("%s: %w", address, errForbidden)
			}
			return nil
		},
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
		// No HTTP/2: Go repeats a request there that the target has read (see
		// [exchange.mayRepeat]).
		// No Proxy: it would connect in our place, and judge by itself.
	}
}

// metadata are services for machines that stand outside the link-local networks.
var metadata = [...]netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS over IPv6
	netip.MustParseAddr("fd00:ec2::23"),    // AWS, of a pod's identity
	netip.MustParseAddr("fd20:ce::254"),    // Google Cloud over IPv6
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
}

// Networks whose addresses stand for IPv4 ones.
var (
	compatible = netip.MustParsePrefix("::/96")        // RFC 4291 §2.5.5.1: in the last four bytes
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052 §2.1: likewise
	sixToFour  = netip.MustParsePrefix("2002::/16")    // RFC 3056 §2: in the four bytes that follow
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
)

// embedded returns the IPv4 address that an IPv6 address stands for on its way,
// if any.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case compatible.Contains(a) && a != netip.IPv6Loopback(), nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:])), true
	default:
		return netip.Addr{}, false
	}
}

// embeddings returns the IPv4 addresses that an address of localNAT64 may stand
// for: by RFC 6052 §2.2 the length of the prefix tells where it is, which only
// that network knows. Of bytes that may well be no address at all, those that
// begin with a zero are left out.
func embeddings(a netip.Addr) (all []netip.Addr) {
	if !localNAT64.Contains(a) {
		return nil
	}
	b := a.As16()
	for _, v4 := range [...][4]byte{
		{b[6], b[7], b[9], b[10]}, {b[7], b[9], b[10], b[11]}, [4]byte(b[9:]), [4]byte(b[12:]), // of 48, 56, 64, 96 bits
	} {
		if v4[0] != 0 {
			all = append(all, netip.AddrFrom4(v4))
		}
	}
	return all
}

// forbidden reports whether nothing that receives push notifications can be at
// an address: the services that hand a machine its credentials live on
// link-local addresses, and the unspecified ones mean this machine itself under
// a name that filters miss. Loopback and private networks are where callers are.
func forbidden(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if v4, ok := embedded(a); ok {
		a = v4
	}
	if a.Is4() {
		b := a.As4()
		if b[0] == 0 || b == [4]byte{255, 255, 255, 255} {
			return true
		}
	}
	return slices.Contains(metadata[:], a) || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() ||
		slices.ContainsFunc(embeddings(a), forbidden)
}
