package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	a2av0 "github.com/a2aproject/a2a-go/a2apb"
	a2av1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// verifies reports whether cards of x's agent must be signed.
func (x *exchange) verifies() bool { return len(x.agent.CardKeys) > 0 }

// verifySent checks an answer to a request for a card. Where cards must be
// signed, a redirection is no answer: nobody vouches for what is there.
func (x *exchange) verifySent(c *sentCard) error {
	switch {
	case !x.verifies():
		return nil
	case holdsCard(c.status):
		card, err := plainBody(c.header, c.body)
		if err != nil {
			return x.wrongCard(err)
		}
		return x.verify(card)
	case c.status/100 == 3 && c.status != http.StatusNotModified:
		return x.wrongCard(fmt.Errorf("is not where it was asked for, but cards.verify must see it (HTTP status %d)", c.status))
	default:
		return nil
	}
}

// verify checks the signatures of a card.
func (x *exchange) verify(card []byte) error {
	err := cardsig.Verify(card, x.agent.CardKeys)
	if errors.Is(err, cardsig.ErrUnsigned) {
		err = fmt.Errorf("%w, and cards.verify asks for it", err)
	}
	if err != nil {
		return x.wrongCard(err)
	}
	return nil
}

// editsCard reports whether an exchange is a call for the extended card, in
// whose answer the card is looked at on its way back.
func (x *exchange) editsCard() bool {
	return x.request != nil && x.request.Op == wire.OpCard && x.readsCards()
}

// rewriteCardResponse does for the card in the answer to a call what card does
// for the one at a well-known path. An answer without a card stays.
func (x *exchange) rewriteCardResponse(resp *http.Response) error {
	if !holdsCard(resp.StatusCode) {
		return nil
	}
	err := x.editAnswer(resp, func(plain []byte) ([]byte, error) {
		if err := x.verifyAnswer(plain); err != nil || x.agent.CardsAsSent {
			return plain, err
		}
		rewrite := func(body []byte, each func(binding, url string) (string, bool)) ([]byte, error) {
			return x.binding.rewriteCard(x.request, body, each)
		}
		edited, err := rewrite(plain, x.interfaces(x.in.Context(), plain, fromOneUser, rewrite))
		if err != nil {
			return nil, fmt.Errorf("cannot be read: %w", err)
		}
		return edited, nil
	})
	if _, known := errors.AsType[*cardError](err); err == nil || known {
		return err
	}
	return x.wrongCard(err)
}

// verifyAnswer checks the signatures of the card in the answer to a call, where
// cards must be signed.
func (x *exchange) verifyAnswer(plain []byte) error {
	if !x.verifies() {
		return nil
	}
	card, err := x.cardIn(plain)
	switch {
	case err != nil:
		return x.wrongCard(fmt.Errorf("cannot be read: %w", err))
	case card == nil:
		return nil
	default:
		return x.verify(card)
	}
}

// cardIn returns the card in the answer to a call for it, nil if there is none,
// as in an error.
func (x *exchange) cardIn(body []byte) ([]byte, error) {
	switch x.binding.(type) {
	case rpcBinding:
		return cardInRPC(body)
	case grpcBinding:
		return cardInGRPC(x.request.Version, body)
	default:
		return body, nil
	}
}

// cardInRPC returns the result of a JSON-RPC response.
func cardInRPC(body []byte) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, errors.New("response is not a JSON object, or has a member twice")
	}
	for name := range members {
		// Some clients, Go's among them, take one for the other.
		if name != "result" && strings.EqualFold(name, "result") {
			return nil, errors.New("response has a second result")
		}
	}
	if result := members["result"]; len(result) > 0 && result.Kind() != 'n' {
		return result, nil
	}
	return nil, nil
}

// cardInGRPC returns the card in a gRPC answer as JSON. Its signatures are the
// same as in the other bindings; fields that are not A2A's are not signed, and
// no client knows them.
func cardInGRPC(v wire.Version, body []byte) ([]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	packed, message, err := grpcframe.Split(body)
	if err != nil {
		return nil, err
	}
	if packed {
		return nil, errors.New("message is compressed")
	}
	var card proto.Message = &a2av0.AgentCard{}
	if v == wire.V10 {
		card = &a2av1.AgentCard{}
	}
	if err := proto.Unmarshal(message, card); err != nil {
		return nil, err
	}
	return protojson.Marshal(card)
}
