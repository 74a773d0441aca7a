package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// keyring spells every key of the store; nothing else does. T stands for the
// tag of a tree's root, A of an agent's name, I of another id (see tag). The
// prefix, by default "a2a:", stands before each.
//
// Keys of a tree: one slot, three keys however large the tree is. Written by the
// scripts over a tree alone. TTL: Retain after the tree's last change, give or
// take 1 %.
//
//	key          type    fields or members
//	t:{T}:state  hash    n, v, agents: what never changes of the tree, what does, the
//	                     names in it (packed, see tree.lua)
//	                     bound: the last upkeep of TTLs elsewhere; wanted: until when who
//	                     frees a place tells all sidecars
//	                     N<session>, V<session>: what never changes of a session, what
//	                     does (packed); R<session>, U<session>: its result and usage
//	                     (JSON). The root session's id is left out in these and the next
//	                     o<n>:<session> → its nth run; #<n> → nth session of the tree, when it was made,
//	                     how many were by then, placeholders and the root left out (packed)
//	                     r<run> → a run (packed)
//	                     m, t + agent + id → run and session of a message, of a task;
//	                     c + agent + id → session of a context (agent = length ":" name);
//	                     x<context> → session that calls under it; s<agent> → its shared
//	                     session; q<request> → session made by it; u<turn> → sessions made in it
//	                     e<event> → seq of an event that may be told again
//	t:{T}:log    stream  <seq>-1: id, at, type, session, branch, tokens, turn, trace, payload
//	t:{T}:order  zset    c<ordinal><session> → minus the number of its parent: what has not
//	                     ended, or has open runs, and does not abandon it;
//	                     s<session> → when it is due; r<open run> → 2^52 + end of its
//	                     lease; "" → +inf keeps the key
//
// Keys of other slots. Every write to them may be repeated.
//
//	key            type    holds                             TTL           written by
//	b:context:A/I  string  root, principal (packed)          Retain + 1/4  Claim, Apply
//	b:task:A/I     string  root, principal (packed)          Retain + 1/4  Claim, Apply
//	sid:I          string  root of the session's tree        Retain + 1/4  Apply
//	trees          zset    root → start of the tree          Retain + 1/4  Apply
//	due            zset    root → when something is due in   Retain + 1/4  Apply, Settle,
//	                       the tree, or may be                             Renew, Sweep
//	a:{A}:runs     zset    run, session (packed) → lease     Retain        take.lua, Apply, Renew
//	a:{A}:wanted   string  1 while a call waits for a place  as it waits   take.lua
//	ping           string  1                                 1 minute      Ping
//	secret         string  32 bytes                          none          Secret
//
// The quarter is how often these TTLs are renewed while their tree lives on.
// Times are microseconds since 1970; packed is MessagePack.
//
// On the channel notices the scripts publish what concerns every sidecar
// (packed, see notices.go). The scripts are a library of functions whose name
// begins with a2a_ and tells its version; it is not under the prefix.
type keyring struct{ prefix string }

// Places of a tree's keys in keyring.tree.
const (
	keyState = iota
	keyLog
	keyOrder
)

func (k keyring) tree(root string) []string {
	p := k.prefix + "t:{" + tag(root) + "}:"
	return []string{p + "state", p + "log", p + "order"}
}

func (k keyring) binding(key sessions.BindingKey) string {
	return k.prefix + "b:" + string(key.Kind) + ":" + tag(key.Agent) + "/" + tag(key.ID)
}

func (k keyring) session(id string) string { return k.prefix + "sid:" + tag(id) }

// agent returns the places at an agent, and the mark of those who wait for one.
func (k keyring) agent(name string) []string {
	p := k.prefix + "a:{" + tag(name) + "}:"
	return []string{p + "runs", p + "wanted"}
}

func (k keyring) due() string { return k.prefix + "due" }

// notices is a channel.
func (k keyring) notices() string { return k.prefix + "notices" }

func (k keyring) trees() string { return k.prefix + "trees" }

func (k keyring) secret() string { return k.prefix + "secret" }

func (k keyring) ping() string { return k.prefix + "ping" }

// tag spells an id of any bytes so that it can stand in a key and in the
// braces of a hash tag: as itself where it is plain, else as a hash. The colon
// keeps the two apart.
func tag(id string) string {
	if plain(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "x:" + hex.EncodeToString(sum[:])
}

func plain(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// idsField spells the field of the state that names a context or task of an
// agent, as field in tree.lua does.
func idsField(key sessions.BindingKey) string {
	kind := "c"
	if key.Kind == sessions.BindTask {
		kind = "t"
	}
	return kind + strconv.Itoa(len(key.Agent)) + ":" + key.Agent + key.ID
}

// idsKey is the inverse of idsField; ok is false for every other field.
func idsKey(field string) (key sessions.BindingKey, ok bool) {
	switch {
	case strings.HasPrefix(field, "c"):
		key.Kind = sessions.BindContext
	case strings.HasPrefix(field, "t"):
		key.Kind = sessions.BindTask
	default:
		return key, false
	}
	length, rest, _ := strings.Cut(field[1:], ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(rest) {
		return key, false
	}
	key.Agent, key.ID = rest[:n], rest[n:]
	return key, true
}
