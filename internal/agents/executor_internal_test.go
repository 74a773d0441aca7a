package agents

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// A message is done with before its last word is heard: whoever hears that may
// send the next one at once, and it must not count as a second at work. No
// client can tell for sure, so this looks from within.
func TestRestsBeforeTheLastWord(t *testing.T) {
	t.Parallel()
	for _, b := range []Behaviour{Researcher, Echo, Ask, Fail} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			a, err := Start(t.Context(), Options{Name: "agent", Behaviour: b})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			x, err := a.executor()
			if err != nil {
				t.Fatal(err)
			}
			message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hi"))
			var busy []int
			for _, err := range x.Execute(t.Context(), &a2asrv.ExecutorContext{Message: message, TaskID: "t", ContextID: "c"}) {
				if err != nil {
					t.Fatal(err)
				}
				a.mu.Lock()
				busy = append(busy, a.busy)
				a.mu.Unlock()
			}
			for i, n := range busy {
				if last := i == len(busy)-1; last != (n == 0) {
					t.Errorf("messages at work at each event = %v, want 0 at the last one only", busy)
				}
			}
		})
	}
}
