package proxy

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Connections kept to one agent. Go's default of 2 makes a fan-out of 11 dial
// nine times each round.
const (
	maxIdle     = 256
	idleTimeout = 90 * time.Second
)

// channel is the connections to one place where an agent listens.
type channel struct {
	url       *url.URL // scheme and host are what counts
	reach     *reach
	transport *http.Transport
}

// protocol says which HTTP a channel speaks to a plaintext port. Over TLS the
// agent has a say in it.
type protocol bool

const (
	http1 protocol = false
	http2 protocol = true
)

func newChannel(to *url.URL, tlsConfig *tls.Config, p protocol) *channel {
	c := &channel{url: to, reach: newReach(dialAddr(to))}
	c.transport = &http.Transport{
		DialContext:         c.reach.DialContext,
		TLSClientConfig:     tlsConfig.Clone(), // a transport makes it its own
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // bytes are the caller's: none is unpacked for it
		// No Proxy: an agent is where its URL says. No time-outs for answers:
		// agents think for as long as they like.
	}
	if p == http2 {
		c.transport.Protocols = new(http.Protocols)
		c.transport.Protocols.SetHTTP2(true)
		c.transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return c
}

func (c *channel) close() {
	c.transport.CloseIdleConnections()
	c.reach.close()
}

// Sizes of the buffers that bodies are copied through, in bytes. A stream holds
// its buffer for as long as it is open, and its events are small.
const (
	bufferSize       = 32 << 10
	streamBufferSize = 2 << 10
)

// newBuffers pools buffers of a size.
func newBuffers(size int) *buffers {
	return &buffers{pool: sync.Pool{New: func() any { b := make([]byte, size); return &b }}}
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
