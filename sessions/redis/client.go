package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Schemes of what is more than one server.
const (
	clusterScheme  = "redis+cluster"
	sentinelScheme = "redis+sentinel"
)

const (
	serverPort   = "6379"
	sentinelPort = "26379"
)

// topologyAge is how old what a client knows of a cluster may become while
// nothing fails. (What fails has it looked at again at once.)
const topologyAge = 10 * time.Second

// newClient returns a client for what a URL names: one server, a cluster, or
// the master that sentinels know of (see [Options.URL]). It connects when it is
// used. Whichever it is, it carries out each command at most once, within
// timeout, at a master. The error holds nothing of the URL.
func newClient(text string, timeout time.Duration) (goredis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	var client goredis.UniversalClient
	var err error
	switch scheme {
	case clusterScheme:
		client, err = clusterClient(rest, timeout)
	case sentinelScheme:
		client, err = sentinelClient(rest, timeout)
	default:
		client, err = serverClient(text, timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the store's URL: %w", err)
	}
	return client, nil
}

// serverClient returns a client for one server.
func serverClient(text string, timeout time.Duration) (*goredis.Client, error) {
	o, err := goredis.ParseURL(text)
	if err != nil {
		return nil, secretive(err)
	}
	o.MaxRetries, o.DialerRetries = -1, 1 // an admission must not be carried out twice behind our back
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.Protocol = 2 // RESP3 looks for pushed messages before each reply, and there are none
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return goredis.NewClient(o), nil
}

// sentinelClient returns a client for the master that sentinels know of. It
// asks them with every new connection, and hangs up on a master that they
// replace.
func sentinelClient(rest string, timeout time.Duration) (*goredis.Client, error) {
	g, err := parseGroup(rest, sentinelPort)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(g.path, "/")
	if master == "" {
		return nil, errors.New("no master is named: write redis+sentinel://HOST,HOST/MASTER")
	}
	g.query.Set("master_name", master)
	g.query.Set("db", or(db, "0"))
	if g.user != nil {
		password, _ := g.user.Password()
		g.query.Set("username", g.user.Username())
		g.query.Set("password", password)
	}
	// go-redis takes what stands before the @ as the sentinels' own.
	g.user = url.UserPassword(g.take("sentinelUsername"), g.take("sentinelPassword"))
	o, err := goredis.ParseFailoverURL(g.goredis())
	if err != nil {
		return nil, secretive(err)
	}
	if o.RouteByLatency || o.RouteRandomly || o.ReplicaOnly || o.UseDisconnectedReplicas {
		return nil, errReplicas
	}
	o.TLSConfig = g.tls
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.Protocol = 2
	o.DisableIdentity = true
	return goredis.NewFailoverClient(o), nil
}

// clusterClient returns a client for a cluster of which some nodes are known.
func clusterClient(rest string, timeout time.Duration) (*goredis.ClusterClient, error) {
	g, err := parseGroup(rest, serverPort)
	if err != nil {
		return nil, err
	}
	if g.path != "" && g.path != "0" {
		return nil, errors.New("a cluster has one database, and its URL no path")
	}
	o, err := goredis.ParseClusterURL(g.goredis())
	if err != nil {
		return nil, secretive(err)
	}
	if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
		return nil, errReplicas
	}
	o.TLSConfig = g.tls
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout
	o.ContextTimeoutEnabled = true
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ClusterStateReloadInterval = topologyAge
	c := goredis.NewClusterClient(o)
	c.AddHook(wary{c})
	return c, nil
}

// Errors of a URL.
var (
	errReplicas = errors.New("replicas may lag behind: the record is read at masters only")
	errNoURL    = errors.New("it is not a URL (what a user or password has of @ / : ? # % must be percent-encoded)")
)

// secretive is an error of go-redis's without the URL, of which net/url quotes
// parts that may belong to a password.
func secretive(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errNoURL
	}
	return err
}

// group is a URL that names several hosts, after its scheme.
type group struct {
	user  *url.Userinfo
	hosts []string // with their ports
	path  string   // without slashes around it
	query url.Values
	tls   *tls.Config // nil: plain text
}

// parseGroup reads [USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]…[/PATH][?QUERY].
func parseGroup(rest, defaultPort string) (*group, error) {
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	at := strings.LastIndex(authority, "@") + 1
	u, err := url.Parse("redis://" + authority[:at] + "host" + tail)
	if err != nil || u.Fragment != "" {
		return nil, errNoURL
	}
	g := &group{user: u.User, path: strings.Trim(u.Path, "/"), query: u.Query()}
	for host := range strings.SplitSeq(authority[at:], ",") {
		h, err := url.Parse("redis://" + host)
		if err != nil || h.Hostname() == "" || h.Host != host {
			return nil, errNoURL
		}
		g.hosts = append(g.hosts, net.JoinHostPort(h.Hostname(), or(h.Port(), defaultPort)))
	}
	name := g.take("tlsServerName")
	switch g.take("tls") {
	case "true":
		// Without a name each connection expects that of the address it is made to.
		g.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	case "false", "":
	default:
		return nil, errors.New("tls is neither true nor false")
	}
	return g, nil
}

// take takes a parameter out of the query.
func (g *group) take(name string) string {
	value := g.query.Get(name)
	g.query.Del(name)
	return value
}

// goredis spells g as go-redis does, but for TLS.
func (g *group) goredis() string {
	for _, host := range g.hosts[1:] {
		g.query.Add("addr", host)
	}
	u := url.URL{Scheme: "redis", User: g.user, Host: g.hosts[0], RawQuery: g.query.Encode()}
	return u.String()
}

// wary is what a cluster's client lacks. It repeats a whole pipeline when a
// connection breaks, whatever was carried out of it: commands that say they must
// not be repeated prevent that, and still follow a slot that has moved. And it
// goes on trying a master that is gone until it happens to look at the cluster
// again: here a failure makes it look.
type wary struct{ cluster *goredis.ClusterClient }

// once is a command that must not be repeated.
type once struct{ goredis.Cmder }

func (once) NoRetry() bool { return true }

func (wary) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (w wary) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, once{cmd})
		w.look(ctx, err)
		return err
	}
}

func (w wary) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		guarded := cmds
		if cmds[0].Name() != "multi" { // go-redis knows a transaction by the types of its ends; ours only read
			guarded = make([]goredis.Cmder, len(cmds))
			for i, cmd := range cmds {
				guarded[i] = once{cmd}
			}
		}
		err := next(ctx, guarded)
		for _, cmd := range cmds {
			if failed := cmd.Err(); unavailable(failed) {
				w.look(ctx, failed)
				break
			}
		}
		return err
	}
}

// look has the cluster looked at again, in the background, if err may mean that
// it has changed.
func (w wary) look(ctx context.Context, err error) {
	if unavailable(err) {
		w.cluster.ReloadState(ctx)
	}
}

// masters does fn at every server that takes writes: the one there is, or all
// of a cluster at once. The error joins all there are.
func (s *Store) masters(ctx context.Context, fn func(ctx context.Context, master goredis.Cmdable) error) error {
	cluster, ok := s.client.(*goredis.ClusterClient)
	if !ok {
		return fn(ctx, s.client)
	}
	var mu sync.Mutex // guards found
	var found []goredis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, master)
		return nil
	})
	if err != nil {
		return fault("finding the cluster's masters", err)
	}
	errs := make([]error, len(found))
	var all sync.WaitGroup
	for i, master := range found {
		all.Go(func() { errs[i] = fn(ctx, master) })
	}
	all.Wait()
	return errors.Join(errs...)
}
