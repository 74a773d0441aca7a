package proxy_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
)

// signedCard is a card that an SDK has signed, with the SDK's name.
func signedCard(t *testing.T, name string) string {
	t.Helper()
	return ofCardsig(t, "cards", name+".json")
}

func ofCardsig(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"../internal/cardsig/testdata"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// trusting is an agent whose cards must be signed with a key.
func trusting(t *testing.T, url, key string) proxy.Agent {
	t.Helper()
	keys, err := cardsig.ParseKeys([]byte(ofCardsig(t, "keys", key)))
	if err != nil {
		t.Fatal(err)
	}
	a := agentAt("worker", url)
	a.CardKeys = keys
	return a
}

// cardCalls are the ways to ask for a card but gRPC.
var cardCalls = []struct {
	name string
	ask  func(*testing.T, *world) answer
	wrap func(card string) string // as the agent answers
}{
	{"well-known", func(t *testing.T, w *world) answer {
		t.Helper()
		return w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
	}, func(card string) string { return card }},
	{"HTTP+JSON", func(t *testing.T, w *world) answer {
		t.Helper()
		return w.do(t, http.MethodGet, "/agents/worker/extendedAgentCard", "")
	}, func(card string) string { return card }},
	{"JSON-RPC", func(t *testing.T, w *world) answer {
		t.Helper()
		return w.post(t, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`)
	}, func(card string) string { return `{"jsonrpc":"2.0","id":1,"result":` + card + `}` }},
}

func TestSignedCards(t *testing.T) {
	t.Parallel()
	good := signedCard(t, "py-1.3.0-es256")
	for _, call := range cardCalls {
		for _, tt := range []struct{ name, card, key, want string }{
			{"verified", good, "es256.pem", ""},
			{"verified, 0.3 beside 1.0", signedCard(t, "py-1.3.0-dual"), "rsa.pem", ""},
			{"unsigned", `{"url":"http://agent/rpc"}`, "es256.pem", "the card of agent worker is not signed, and cards.verify asks for it"},
			{"changed", strings.Replace(good, "1.2.3", "1.2.4", 1), "es256.pem", "the card of agent worker has no valid signature: signature 1 fits the card under none of the keys"},
			{"another's", good, "other.pem", "the card of agent worker has no valid signature"},
		} {
			for _, packed := range []bool{false, true} {
				t.Run(call.name+" "+tt.name, func(t *testing.T) {
					t.Parallel()
					sent := call.wrap(tt.card)
					agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("ETag", `"agent's"`)
						if packed {
							w.Header().Set("Content-Encoding", "gzip")
							says(zipped(sent))(w, nil)
							return
						}
						says(sent)(w, nil)
					})
					for _, asSent := range []bool{false, true} {
						a := trusting(t, agent.URL, tt.key)
						a.CardsAsSent = asSent
						w := newWorld(t, a)
						got := call.ask(t, w)
						switch {
						case tt.want != "":
							if !strings.Contains(got.body, tt.want) || !strings.Contains(got.body, "INVALID_AGENT_CARD") || strings.Contains(got.body, "agent/rpc") {
								t.Errorf("card as sent %t = %d %s, want %s", asSent, got.status, got.body, tt.want)
							}
						case asSent:
							want := sent
							if packed {
								want = zipped(sent)
							}
							if got.body != want || got.header.Get("ETag") != `"agent's"` || (got.header.Get("Content-Encoding") == "gzip") != packed {
								t.Errorf("card as sent = %s, %v; want %s", got.body, got.header, want)
							}
						default:
							rewritten(t, w, got)
						}
					}
				})
			}
		}
	}
}

// rewritten checks a card that was verified: it points at the sidecar and has
// no signature that it does not fit.
func rewritten(t *testing.T, w *world, got answer) {
	t.Helper()
	if got.status != http.StatusOK || strings.Contains(got.body, "signatures") || got.header.Get("Content-Encoding") != "" ||
		strings.Contains(got.body, "agent.example:9000") || !strings.Contains(got.body, w.URL+"/agents/worker/rpc") || !json.Valid([]byte(got.body)) {
		t.Errorf("card = %d %s, want it rewritten and without signatures", got.status, got.body)
	}
}

// What holds no card passes where cards must be signed, but nothing that leads
// to one.
func TestSignedCardsOtherAnswers(t *testing.T) {
	t.Parallel()
	good := signedCard(t, "py-1.3.0-es256")
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		want   string // in the body
	}{
		{"none", http.NotFound, http.StatusNotFound, "404 page not found"},
		{"not modified", status(http.StatusNotModified), http.StatusNotModified, ""},
		{"elsewhere", status(http.StatusFound, "Location", "http://evil.example/"), http.StatusBadGateway, "is not where it was asked for, but cards.verify must see it (HTTP status 302)"},
		{"another success", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"url":"http://evil.example/"}`))
		}, http.StatusBadGateway, "is not signed"},
		{"a part", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusPartialContent)
			}
			_, _ = w.Write([]byte(good))
		}, http.StatusOK, `"signatures"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, tt.answer)
			a := trusting(t, agent.URL, "es256.pem")
			a.CardsAsSent = true
			w := newWorld(t, a)
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "", "Range", "bytes=0-9", "If-None-Match", `"x"`)
			if got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("card = %d %s, want %d %s", got.status, got.body, tt.status, tt.want)
			}
		})
	}
}

// Answers of JSON-RPC that hold no card, or two.
func TestSignedCardsByJSONRPC(t *testing.T) {
	t.Parallel()
	good := signedCard(t, "py-1.3.0-es256")
	for _, tt := range []struct{ name, answer, want string }{
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"none"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"none"}}`},
		{"null", `{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1,"result":null}`},
		{"two results", `{"result":` + good + `,"Result":{"url":"http://evil.example/"}}`, "cannot be read: response has a second result"},
		{"no JSON", `evil`, "cannot be read: response is not a JSON object"},
		{"a list", `{"result":[]}`, "cannot be read: it is not a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(tt.answer))
			w := newWorld(t, trusting(t, agent.URL, "es256.pem"))
			got := w.post(t, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`)
			if !strings.Contains(got.body, tt.want) || strings.Contains(got.body, "evil") {
				t.Errorf("answer = %s, want %s", got.body, tt.want)
			}
		})
	}
}
