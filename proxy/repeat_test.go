package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
)

// resetting is an agent that reads each request whole and then resets its
// stream. It returns its address and how many requests it has had.
func resetting(t *testing.T, listen func(net.Listener) net.Listener, code http2.ErrCode) (addr string, had *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, had = l.Addr().String(), new(atomic.Int32)
	l = listen(l)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go reset(c, code, had)
		}
	}()
	return addr, had
}

func reset(c net.Conn, code http2.ErrCode, had *atomic.Int32) {
	defer func() { _ = c.Close() }()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if frame.StreamEnded() {
				had.Add(1)
				_ = f.WriteRSTStream(frame.StreamID, code)
			}
		}
	}
}

// A send that an agent has read is not sent again, whatever becomes of it.
func TestSendsAreSentOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(certified.Close)
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	for _, code := range []http2.ErrCode{http2.ErrCodeRefusedStream, http2.ErrCodeProtocol, http2.ErrCodeInternal} {
		t.Run("gRPC "+code.String(), func(t *testing.T) {
			t.Parallel()
			addr, had := resetting(t, func(l net.Listener) net.Listener { return l }, code)
			a := isolated("worker", "http://"+addr)
			a.GRPCURL = a.URL
			w := newWorld(t, a)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := w.dialGRPC(t).SendMessage(ctx, proto10("m1"))
			if status.Code(err) != codes.Unavailable || had.Load() != 1 {
				t.Errorf("SendMessage = %v, and the agent had it %d times; want Unavailable, once", err, had.Load())
			}
		})
		t.Run("JSON-RPC "+code.String(), func(t *testing.T) {
			t.Parallel()
			addr, had := resetting(t, func(l net.Listener) net.Listener {
				return tls.NewListener(l, &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}})
			}, code)
			a := isolated("worker", "https://"+addr)
			a.TLS = &tls.Config{RootCAs: roots}
			w := newWorld(t, a)
			got := w.post(t, send10("m1", ""))
			if e := readError(t, got, false); e.Error.Code != -32052 || had.Load() != 1 {
				t.Errorf("send = %s, and the agent had it %d times; want -32052, once", got.body, had.Load())
			}
		})
	}
}

// The connections for gRPC do not spoil those for all else.
func TestTLSOfBothChannels(t *testing.T) {
	t.Parallel()
	base := httptest.NewUnstartedServer(says(message10)) // HTTP/1.1 alone
	base.StartTLS()
	t.Cleanup(base.Close)
	roots := x509.NewCertPool()
	roots.AddCert(base.Certificate())
	agent := &grpcAgent{send: func(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
		return &a2apb.SendMessageResponse{}, nil
	}}
	a := isolated("worker", base.URL)
	a.TLS = &tls.Config{RootCAs: roots}
	a.GRPCURL = agent.start(t, grpc.Creds(credentials.NewServerTLSFromCert(&base.TLS.Certificates[0])))
	a.GRPCURL.Scheme = "https"
	w := newWorld(t, a)
	client := w.dialGRPC(t)
	for i := range 2 {
		if got := w.post(t, send10("j"+itoa(i), "")); got.status != http.StatusOK || got.body != message10 {
			t.Errorf("JSON-RPC send %d = %d %s", i, got.status, got.body)
		}
		if _, err := client.SendMessage(t.Context(), proto10("g"+itoa(i))); err != nil {
			t.Errorf("gRPC send %d = %v", i, err)
		}
		base.CloseClientConnections() // the next call makes a connection
		within(t, "only gRPC's connection is left", func() bool { return w.proxy.Connections("worker") == 1 })
	}
}

// h2cTo makes requests over HTTP/2 without TLS.
func h2cTo(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// What only looks like another request does not get to the agent's methods
// unread: by an escaped path, over HTTP/1.1, as a type that is spelled oddly, or
// as JSON that says it is gRPC.
func TestNoWayAroundByGRPC(t *testing.T) {
	t.Parallel()
	agent := &fake{}
	agent.Server = httptest.NewUnstartedServer(agent.handler(says(message10)))
	agent.Config.Protocols = new(http.Protocols)
	agent.Config.Protocols.SetHTTP1(true)
	agent.Config.Protocols.SetUnencryptedHTTP2(true)
	agent.Start()
	t.Cleanup(agent.Close)
	a := isolated("worker", agent.URL)
	u, err := url.Parse(agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	a.GRPCURL = u
	w := newWorld(t, a)
	port := "http://" + w.listenGRPC(t)
	const method = "/lf.a2a.v1.A2AService/SendMessage"
	framed := string(grpcframe.Append(nil, []byte("\x12\x04\x0a\x02m1")))
	for name, send := range map[string]struct {
		url, contentType, body string
		client                 *http.Client
	}{
		"escaped path":      {port + "/lf.a2a.v1.A2AService/Send%4Dessage", "application/grpc", framed, h2cTo(t)},
		"HTTP/1.1":          {w.URL + "/agents/worker" + method, "application/grpc", framed, w.Client()},
		"HTTP/1.1, escaped": {w.URL + "/agents/worker/lf.a2a.v1.A2AService/Send%4Dessage", "application/grpc+proto", framed, w.Client()},
		"odd type":          {w.URL + "/agents/worker" + method, "Application/GRPC;a=1;a=2", framed, w.Client()},
		"JSON":              {port + "/rpc", "application/grpc", send10("m1", ""), h2cTo(t)},
		"type that is none": {port + method, "application/grpcx", framed, h2cTo(t)},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, send.url, strings.NewReader(send.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", send.contentType)
			resp, err := send.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if n := len(agent.received()); n != 0 {
				t.Errorf("the agent got %d requests: %+v", n, agent.received())
			}
			if ok := resp.StatusCode == http.StatusOK && resp.Header.Get("Grpc-Status") == ""; ok {
				t.Errorf("answer = %d %v %s, want a refusal", resp.StatusCode, resp.Header, b)
			}
		})
	}
}

// A gRPC call may come to the outbound port, below its agent's name.
func TestGRPCBelowTheAgentsName(t *testing.T) {
	t.Parallel()
	w, _ := grpcWorld(t, &grpcAgent{send: func(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: &a2apb.Message{MessageId: "r1"}}}, nil
	}}, func(*proxy.Agent) {})
	out := httptest.NewUnstartedServer(w.proxy)
	out.Config.Protocols = new(http.Protocols)
	out.Config.Protocols.SetUnencryptedHTTP2(true)
	out.Start()
	t.Cleanup(out.Close)
	body := grpcframe.Append(nil, []byte("\x12\x04\x0a\x02m1"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, out.URL+"/agents/worker/lf.a2a.v1.A2AService/SendMessage", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := h2cTo(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.Trailer.Get("Grpc-Status") != "0" || !bytes.Contains(b, []byte("r1")) {
		t.Errorf("answer = %q, %v, status %q %q; want the agent's message", b, err, resp.Trailer.Get("Grpc-Status"), resp.Header.Get("Grpc-Message"))
	}
}

// With refuse: task a gRPC caller gets a task, too, where nobody has told yet
// where the agent takes its calls.
func TestRefuseTaskWithoutAPlace(t *testing.T) {
	t.Parallel()
	a := agentAt("worker", nowhere(t))
	a.RefuseTask = true
	w := newWorld(t, a)
	conn, err := grpc.NewClient(w.listenGRPC(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	result, err := a2apb.NewA2AServiceClient(conn).SendMessage(t.Context(), proto10("m1"))
	if err != nil || result.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_FAILED {
		t.Errorf("SendMessage = %v, %v; want a failed task", result, err)
	}
	if text := result.GetTask().GetStatus().GetMessage().GetParts()[0].GetText(); strings.Contains(text, "dial") || !strings.Contains(text, "cannot be reached") {
		t.Errorf("the task says %q, want what a caller may know", text)
	}
}
