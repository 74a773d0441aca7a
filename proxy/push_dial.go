package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
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
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
		// No Proxy: it would connect in our place, and judge by itself.
	}
}

// metadata are services for machines that stand outside the link-local networks.
var metadata = [...]netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS over IPv6
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("192.0.0.192"),     // Oracle Cloud
}

// nat64 holds IPv4 addresses in its last four bytes (RFC 6052 §2.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// forbidden reports whether nothing that receives push notifications can be at
// an address: the services that hand a machine its credentials live on
// link-local addresses, and the unspecified ones mean this machine itself under
// a name that filters miss. Loopback and private networks are where callers are.
func forbidden(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if a.Is4() {
		b := a.As4()
		if b[0] == 0 || b == [4]byte{255, 255, 255, 255} {
			return true
		}
	}
	for _, m := range metadata {
		if a == m {
			return true
		}
	}
	return a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast()
}
