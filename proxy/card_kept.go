package proxy

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// What is kept of cards, of one agent: how many, how large each may be, and
// how long what tells them apart. Callers have a say in all of these.
const (
	maxKept     = 16
	maxKeptCard = 256 << 10
	maxKeptKey  = 1 << 10
)

// keptPatience is what an agent gets to send a card while its last one is kept.
// Clients give up after 10 seconds or more.
const keptPatience = 5 * time.Second

// markHeader marks a card that the agent did not send just now.
const markHeader = "X-Sidecar-Card"

// cardKey is what tells apart the cards that an agent serves to anybody.
type cardKey struct{ path, query, version, accept, encoding string }

// keptCard is an agent's card as it came, verified if it must be.
type keptCard struct {
	sentCard
	at  time.Time
	age time.Duration // that it had then
}

// keptCards are the last good cards of an agent, for when it is down. It is
// safe for concurrent use.
type keptCards struct {
	cards    *lru.Cache[cardKey, keptCard]
	patience time.Duration // with an agent that is asked for a newer one
}

func newKeptCards() keptCards {
	cards, err := lru.New[cardKey, keptCard](maxKept)
	if err != nil {
		panic(err) // the size is a constant, and more than 0
	}
	return keptCards{cards, keptPatience}
}

// put keeps a card.
func (k keptCards) put(key cardKey, c *sentCard, now time.Time) {
	kept := keptCard{
		sentCard: sentCard{status: c.status, header: c.header.Clone(), body: bytes.Clone(c.body), stale: true},
		at:       now,
	}
	if s, err := strconv.Atoi(c.header.Get("Age")); err == nil && s > 0 {
		kept.age = time.Duration(s) * time.Second
	}
	k.cards.Add(key, kept)
}

// drop forgets a card.
func (k keptCards) drop(key cardKey) { k.cards.Remove(key) }

// last returns the card that was kept, marked as stale (RFC 9111 §4.2.4; §5.5
// of RFC 7234 for the warning, which later ones dropped and clients still read),
// or nil. The caller may change it.
func (k keptCards) last(key cardKey, now time.Time) *sentCard {
	kept, ok := k.cards.Get(key)
	if !ok {
		return nil
	}
	h := kept.header.Clone()
	age := max(0, now.Sub(kept.at)+kept.age)
	h.Set("Age", strconv.Itoa(int(age/time.Second)))
	h.Set("Warning", `110 - "Response is Stale"`)
	h.Set("Cache-Control", "no-cache") // the next answer may be better
	h.Del("Expires")
	h.Set(markHeader, "stale")
	return &sentCard{kept.status, h, kept.body, true}
}

// isDown reports whether what came of asking for a card means that the agent,
// or what stands before it, is down.
func isDown(c *sentCard, err error) bool {
	if bad, ok := errors.AsType[*cardError](err); ok {
		return bad.cut
	}
	if err != nil {
		return true
	}
	switch c.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}

// keepCard keeps the card that x got if anybody who asks in the same way may
// have it, and forgets the one before if it was taken back or is not for anybody
// any more. What came with credentials is for their owner, and says nothing of
// what others get; neither does an agent that has too much to do.
func (x *exchange) keepCard(c *sentCard, now time.Time) {
	key, ok := x.cardKey()
	if !ok || isPersonal(x.in.Header) {
		return
	}
	switch c.status {
	case http.StatusOK:
		if len(c.body) <= maxKeptCard && isPublic(c.header) {
			x.agent.cards.put(key, c, now)
		} else {
			x.agent.cards.drop(key)
		}
	case http.StatusNotFound, http.StatusGone:
		x.agent.cards.drop(key)
	}
}

// isPersonal reports whether a request says who asks. Many agents know their
// users by headers of their own.
func isPersonal(h http.Header) bool {
	for name := range h {
		name = strings.ToLower(name)
		if name == "cookie" || name == "x-user-id" {
			return true
		}
		for _, word := range [...]string{"auth", "key", "token", "secret"} {
			if strings.Contains(name, word) {
				return true
			}
		}
	}
	return false
}

// lastCard returns the card that was kept for a request such as x, or nil. With
// credentials it might have been another; one for anybody is better than none.
func (x *exchange) lastCard(now time.Time) *sentCard {
	key, ok := x.cardKey()
	if !ok {
		return nil
	}
	return x.agent.cards.last(key, now)
}

// publicPath returns the path below the agent of the card that x asks for, the
// same for both well-known ones; not ok for an extended card. That is its
// caller's alone, whose credentials may stand in any header.
func (x *exchange) publicPath() (path string, ok bool) {
	path, err := url.PathUnescape(x.rest)
	if before, old := strings.CutSuffix(path, oldCardPath); old {
		path = before + cardPath
	}
	return path, err == nil && strings.HasSuffix(path, cardPath)
}

// cardKey returns what tells the card that x asks for apart from others that
// anybody gets; not ok for one that is not kept.
func (x *exchange) cardKey() (key cardKey, ok bool) {
	path, ok := x.publicPath()
	if !ok {
		return key, false
	}
	h := x.in.Header
	key = cardKey{path, x.in.URL.RawQuery, h.Get("A2a-Version"), strings.Join(h["Accept"], ","), ""}
	if x.agent.CardsAsSent {
		key.encoding = strings.Join(h["Accept-Encoding"], ",")
	}
	size := len(key.path) + len(key.query) + len(key.version) + len(key.accept) + len(key.encoding)
	return key, size <= maxKeptKey
}

// isPublic reports whether an answer may be kept for others: the agent does not
// forbid it, and it varies by nothing that a cardKey has not.
func isPublic(h http.Header) bool {
	for directive := range strings.SplitSeq(strings.Join(h["Cache-Control"], ","), ",") {
		name, _, _ := strings.Cut(directive, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-store", "private":
			return false
		}
	}
	for name := range strings.SplitSeq(strings.Join(h["Vary"], ","), ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "", "a2a-version", "accept", "accept-encoding", "origin":
		case "authorization", "cookie": // whoever has none gets the same
		default:
			return false
		}
	}
	return len(h["Set-Cookie"]) == 0
}
