package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func TestMatchREST(t *testing.T) {
	t.Parallel()
	type routes map[string]wire.Route // by verb and path
	for name, table := range map[string]routes{
		"1.0": {
			"POST /message:send":                              {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /message:stream":                            {Op: wire.OpStream, Method: "POST /message:stream"},
			"GET /tasks/t":                                    {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t"},
			"GET /tasks":                                      {Op: wire.OpList, Method: "GET /tasks"},
			"POST /tasks/t:cancel":                            {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: "t"},
			"POST /tasks/t:subscribe":                         {Op: wire.OpSubscribe, Method: "POST /tasks/{id}:subscribe", TaskID: "t"},
			"GET /tasks/t:subscribe":                          {Op: wire.OpSubscribe, Method: "GET /tasks/{id}:subscribe", TaskID: "t"},
			"POST /tasks/t/pushNotificationConfigs":           {Op: wire.OpPushSet, Method: "POST /tasks/{id}/pushNotificationConfigs", TaskID: "t"},
			"GET /tasks/t/pushNotificationConfigs":            {Op: wire.OpPushList, Method: "GET /tasks/{id}/pushNotificationConfigs", TaskID: "t"},
			"GET /tasks/t/pushNotificationConfigs/c":          {Op: wire.OpPushGet, Method: "GET /tasks/{id}/pushNotificationConfigs/{configId}", TaskID: "t"},
			"DELETE /tasks/t/pushNotificationConfigs/c":       {Op: wire.OpPushDelete, Method: "DELETE /tasks/{id}/pushNotificationConfigs/{configId}", TaskID: "t"},
			"GET /extendedAgentCard":                          {Op: wire.OpCard, Method: "GET /extendedAgentCard"},
			"POST /tenant/message:send":                       {Op: wire.OpSend, Method: "POST /message:send"},
			"GET /locations/l/projects/p/tasks/t":             {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t"},
			"GET /base/tenant/extendedAgentCard":              {Op: wire.OpCard, Method: "GET /extendedAgentCard"},
			"DELETE /b/ten/tasks/t/pushNotificationConfigs/c": {Op: wire.OpPushDelete, Method: "DELETE /tasks/{id}/pushNotificationConfigs/{configId}", TaskID: "t"},
		},
		"0.3": {
			"POST /v1/message:send":                {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /a2a/rest/v1/message:stream":     {Op: wire.OpStream, Method: "POST /message:stream"},
			"GET /v1/tasks/t":                      {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t"},
			"GET /v1/tasks":                        {Op: wire.OpList, Method: "GET /tasks"},
			"GET /v1/card":                         {Op: wire.OpCard, Method: "GET /v1/card"},
			"GET /base/v1/card":                    {Op: wire.OpCard, Method: "GET /v1/card"},
			"GET /agent/authenticatedExtendedCard": {Op: wire.OpCard, Method: "GET /agent/authenticatedExtendedCard"},
		},
		"ids": {
			"GET /tasks/a:b":                  {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a:b"},
			"POST /tasks/a:b:cancel":          {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: "a:b"},
			"POST /tasks/:cancel:cancel":      {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: ":cancel"},
			"GET /tasks/a%3Ab%20c":            {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a:b c"},
			"GET /tasks/a%2Fb":                {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a/b"},
			"GET /tasks/a%zz":                 {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a%zz"},
			"GET /tasks/a%00":                 {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a\x00"},
			"GET /tasks/tasks":                {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "tasks"},
			"GET /tasks/tasks/tasks":          {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "tasks"},
			"GET /tasks/extendedAgentCard":    {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "extendedAgentCard"},
			"GET /tasks/a:cancel":             {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a:cancel"}, // no agent cancels by GET
			"GET /tasks/t%252F":               {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t%2F"},
			"POST /tasks/t%3Acancel":          {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: "t"},
			"POST /tasks/t:cancel?x=/message": {}, // a path has no query
		},
		"as lenient agents read it": {
			"POST /message%3Asend":        {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /%6Dessage:send":        {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /MESSAGE:Send":          {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /tasks/T:Cancel":        {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: "T"},
			"POST /message:send/":         {Op: wire.OpSend, Method: "POST /message:send"},
			"POST //v1//message:send":     {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /v1%2Fmessage:send":     {Op: wire.OpSend, Method: "POST /message:send"},
			"GET /v1%2Ftasks/a%2525":      {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "a%25"},
			"POST /x/../message:send/.":   {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /message:send/%2E%2e/x": {},
			"GET /../../tasks":            {Op: wire.OpList, Method: "GET /tasks"},
			"POST message:send":           {Op: wire.OpSend, Method: "POST /message:send"},
			"GET /Tasks/T/":               {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "T"},
			"POST /message:send;a=b":      {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /v1;x/message:send;/":   {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /tasks;a/t:cancel;b=c":  {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: "t"},
			"POST /x/..;/v1/message:send": {Op: wire.OpSend, Method: "POST /message:send"},
			"GET /tasks/x/..;y/t":         {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t"},
			"GET /v1;a/card;b":            {Op: wire.OpCard, Method: "GET /v1/card"},
			"GET /tasks/t;a=b":            {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t;a=b"}, // ReadREST refuses it
			"POST /message:send%3Ba=b":    {},                                                           // no parameter
			"POST /message:sendx;a":       {},
			"POST /message:send%20":       {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /message:send%20;a/":    {Op: wire.OpSend, Method: "POST /message:send"},
			"POST /tasks%20/t:cancel%20":  {Op: wire.OpCancel, Method: "POST /tasks/{id}:cancel", TaskID: "t"},
			"GET /tasks/t%20":             {Op: wire.OpGet, Method: "GET /tasks/{id}", TaskID: "t "}, // ReadREST refuses it
			"POST /%20message:send":       {},
		},
		"not of A2A": {
			"GET /": {}, "GET ": {}, "POST /": {}, "POST /message": {}, "POST /message:sendx": {}, "POST /xmessage:send": {},
			"GET /message:send": {}, "PUT /message:send": {}, "post /message:send": {}, "POST /tasks": {}, "POST /tasks/t": {},
			"POST /tasks/:cancel": {}, "DELETE /tasks/t": {}, "GET /card": {}, "POST /tasks/t:cancel/x": {}, "HEAD /tasks/t": {},
			"PUT /tasks/t/pushNotificationConfigs/c": {}, "DELETE /tasks/t/pushNotificationConfigs": {}, "POST /message%253Asend": {},
			"GET /.well-known/agent-card.json": {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for in, want := range table {
				q, _ := parsed(in + "\n")
				if name != "as lenient agents read it" && q.Query != "" {
					q.Path += "?" + q.Query
				}
				got, ok := wire.MatchREST(q.Verb, q.Path)
				if diff := cmp.Diff(want, got); diff != "" || ok != (want != wire.Route{}) {
					t.Errorf("MatchREST(%s) ok %v (-want +got):\n%s", in, ok, diff)
				}
			}
		})
	}
}
