package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc03 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc10 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// offer puts every interface that the agent's version and bindings ask for on
// mux and into its card.
func (a *Agent) offer(ctx context.Context, mux *http.ServeMux, card *a2a.AgentCard, handler a2asrv.RequestHandler) error {
	speaks10, speaks03 := a.opts.Version != V03, a.opts.Version != V10
	if !slices.Contains([]Version{V10, V03, Both}, a.opts.Version) {
		return fmt.Errorf("no such version of A2A: %q", a.opts.Version)
	}
	name := func(url string, binding a2a.TransportProtocol, version a2a.ProtocolVersion) {
		i := a2a.NewAgentInterface(url, binding)
		i.ProtocolVersion = version
		card.SupportedInterfaces = append(card.SupportedInterfaces, i)
	}
	serve := func(path string, binding a2a.TransportProtocol, version a2a.ProtocolVersion, h http.Handler) {
		if binding == a2a.TransportProtocolHTTPJSON {
			mux.Handle(path+"/", http.StripPrefix(path, h))
		} else {
			mux.Handle(path, h)
		}
		name(a.url+strings.TrimSuffix(path, "/"), binding, version)
	}
	bindings := a.opts.Bindings
	if bindings == nil {
		bindings = []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC}
	}
	for _, binding := range bindings {
		switch binding {
		case a2a.TransportProtocolJSONRPC:
			path03 := pathRPC
			if speaks10 {
				serve(pathRPC, binding, a2a.Version, a2asrv.NewJSONRPCHandler(handler))
				path03 = pathRPC03
			}
			if speaks03 {
				serve(path03, binding, a2av0.Version, a2av0.NewJSONRPCHandler(handler))
			}
		case a2a.TransportProtocolHTTPJSON:
			if speaks10 {
				serve(pathREST, binding, a2a.Version, a2asrv.NewRESTHandler(handler))
			}
			if speaks03 {
				serve(pathREST03, binding, a2av0.Version, a2av0.NewRESTHandler(handler))
			}
		case a2a.TransportProtocolGRPC:
			g, err := startGRPC(ctx, &a.conns, handler, speaks10, speaks03)
			if err != nil {
				return err
			}
			a.grpc = g
			if speaks10 {
				name(g.addr, binding, a2a.Version)
			}
			if speaks03 {
				name(g.addr, binding, a2av0.Version)
			}
		default:
			return fmt.Errorf("no such binding of A2A: %q", binding)
		}
	}
	return nil
}

// grpcServer is the agent's gRPC interface.
type grpcServer struct {
	*grpc.Server
	addr   string // host:port
	served chan error
}

// startGRPC serves handler by gRPC on a free port of 127.0.0.1.
func startGRPC(ctx context.Context, conns *connections, handler a2asrv.RequestHandler, speaks10, speaks03 bool) (*grpcServer, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &grpcServer{
		Server: grpc.NewServer(grpc.UnaryInterceptor(unaryHeaders), grpc.StreamInterceptor(streamHeaders)),
		addr:   listener.Addr().String(), served: make(chan error, 1),
	}
	if speaks10 {
		grpc10.NewHandler(handler).RegisterWith(g.Server)
	}
	if speaks03 {
		grpc03.NewHandler(handler).RegisterWith(g.Server)
	}
	go func() { g.served <- g.Serve(conns.listener(listener)) }()
	return g, nil
}

func (g *grpcServer) close() error {
	g.Stop()
	if err := <-g.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// withMetadata puts the metadata of a gRPC call where [withHeaders] puts headers.
func withMetadata(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	h := make(http.Header, len(md))
	for name, values := range md {
		h[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	return context.WithValue(ctx, headerKey{}, h)
}

func unaryHeaders(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(withMetadata(ctx), req)
}

func streamHeaders(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, streamWithContext{stream, withMetadata(stream.Context())})
}

// streamWithContext is a stream with another context.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamWithContext) Context() context.Context { return s.ctx }
