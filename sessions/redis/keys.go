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
// Keys of a tree: one slot, nine keys however large the tree is. Written by the
// scripts over a tree alone. TTL: Retain after the tree's last change, give or
// take 1 %.
//
//	key              type    fields or members
//	t:{T}:meta       hash    n what never changes of the tree, v its counters and times,
//	                         agents the names in it (each packed, see tree.lua); bound
//	                         the last upkeep of TTLs elsewhere
//	t:{T}:nodes      hash    n:<session> what never changes, v:<session> what does
//	                         (packed, see tree.lua);
//	                         r:<session>, u:<session> result and usage (JSON)
//	t:{T}:runs       hash    <run> → packed, see tree.lua
//	t:{T}:ids        hash    m, t + agent + id → run and session of a message, of a task;
//	                         c + agent + id → session of a context; x + id → session that
//	                         calls under a context; s + agent → its shared session;
//	                         u + turn → sessions made in it. (agent = length ":" name)
//	t:{T}:seen       hash    id of an event that may be told again → seq; "" keeps the key
//	t:{T}:log        stream  <seq>-1: id, at, type, session, branch, tokens, turn, trace, payload
//	t:{T}:leases     zset    open run → end of its lease; "" → +inf keeps the key
//	t:{T}:deadlines  zset    idle session → its deadline; "" → +inf keeps the key
//	t:{T}:made       zset    session → when it was made (placeholders and the root out)
//
// Keys of other slots. Every write to them may be repeated.
//
//	key                 type    holds                          TTL            written by
//	b:context:A/I       string  root, principal (packed)       Retain + 1/4   Claim, Apply
//	b:task:A/I          string  root, principal (packed)       Retain + 1/4   Claim, Apply
//	sid:I               string  root of the session's tree     Retain + 1/4   Apply
//	trees               zset    root → start of the tree       Retain + 1/4   Apply
//	a:{A}:runs          zset    run, session (packed) → lease  Retain         take.lua, Apply, Renew
//	ping                string  1                              1 minute       Ping
//	secret              string  32 bytes                       none           Secret
//
// The quarter is how often these TTLs are renewed while their tree lives on.
// Times are microseconds since 1970; packed is MessagePack.
type keyring struct{ prefix string }

// Places of some of a tree's keys in keyring.tree.
const (
	keyMeta = iota
	keyNodes
	keyRuns
	keyIDs
	_ // seen
	keyLog
)

func (k keyring) tree(root string) []string {
	p := k.prefix + "t:{" + tag(root) + "}:"
	return []string{
		p + "meta", p + "nodes", p + "runs", p + "ids", p + "seen", p + "log",
		p + "leases", p + "deadlines", p + "made",
	}
}

func (k keyring) binding(key sessions.BindingKey) string {
	return k.prefix + "b:" + string(key.Kind) + ":" + tag(key.Agent) + "/" + tag(key.ID)
}

func (k keyring) session(id string) string { return k.prefix + "sid:" + tag(id) }

func (k keyring) agent(name string) string { return k.prefix + "a:{" + tag(name) + "}:runs" }

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

// idsField spells the field of the ids hash that names a context or task of an
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
