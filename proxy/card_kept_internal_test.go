package proxy

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

func TestKeptCardsAge(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		age   string // as the agent sent it
		after time.Duration
		want  string
	}{
		{"", 0, "0"},
		{"", 90*time.Second + 999*time.Millisecond, "90"},
		{"30", time.Minute, "90"},
		{"-5", time.Minute, "60"},
		{"x", time.Minute, "60"},
		{"", -time.Minute, "0"}, // the clock was set back
	} {
		k := newKeptCards()
		h := http.Header{}
		if tt.age != "" {
			h.Set("Age", tt.age)
		}
		k.put(cardKey{}, &sentCard{status: http.StatusOK, header: h, body: []byte("{}")}, began)
		if got := k.last(cardKey{}, began.Add(tt.after)).header.Get("Age"); got != tt.want {
			t.Errorf("Age of a card with Age %q after %s = %s, want %s", tt.age, tt.after, got, tt.want)
		}
	}
}

// What is kept is bounded, and the card that was asked for last stays.
func TestKeptCardsBound(t *testing.T) {
	t.Parallel()
	k := newKeptCards()
	for i := range 2 * maxKept {
		k.put(cardKey{query: strconv.Itoa(i)}, &sentCard{status: http.StatusOK, header: http.Header{}}, time.Now())
		if k.last(cardKey{query: "0"}, time.Now()) == nil {
			t.Fatalf("after %d cards, the one that is used all the time is gone", i+1)
		}
	}
	if n := k.cards.Len(); n != maxKept {
		t.Errorf("%d cards are kept, want %d", n, maxKept)
	}
	if k.last(cardKey{query: "1"}, time.Now()) != nil {
		t.Error("a card that nobody asked for again is kept")
	}
}
