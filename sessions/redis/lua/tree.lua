-- tree.lua: what the scripts over one tree begin with. It loads what is asked
-- for, at most once, and keeps it in tables; runs.lua changes them, and
-- flush.lua writes what changed, so that a call costs the same few commands
-- however large the tree is.
--
-- KEYS  the keys of the tree, in the order of keys.go (keyring.tree)
-- ARGV  1  now in microseconds; empty: the server's clock (always, in production)
--       2  how long the tree is kept after its last change, in milliseconds
--       3… the script's own
--
-- Integers stay below 2^53, where Lua's doubles are exact. They are spelled by
-- int: in a string they must be, since Lua's own spelling turns to exponents at
-- 1e14; as an argument of a command it is much cheaper than the server's own.

local META, NODES, RUNS, IDS, SEEN, LOG, LEASES, DEADLINES, MADE = unpack(KEYS)

local NEVER = 9007199254740991 -- 2^53 - 1: a time that does not come

local function int(n) return string.format('%d', n) end

local now
if ARGV[1] ~= '' then
	now = tonumber(ARGV[1])
else
	local t = redis.call('TIME')
	now = t[1] * 1000000 + t[2]
end
local retain = tonumber(ARGV[2]) -- ms

-- Records are MessagePack values one after another: it is by far the fastest
-- the server offers (an array needs a table each way), and holds strings of any
-- bytes. Go reads them in record.go. What is not there is false. Each has its
-- two functions here, in one order.

local pack, decode = cmsgpack.pack, cmsgpack.unpack

-- What never changes of a session. path is id, agent, … from the root on, packed.
local function encodeNode(s)
	return pack(s.depth, s.ordinal, s.created, s.at, s.parent, s.edge, s.kind, s.agent, s.branch, s.tokens, s.read,
		s.isolated, s.inherit, s.remote, s.turn, s.source, s.trace, s.path)
end

local function decodeNode(raw, s)
	s.depth, s.ordinal, s.created, s.at, s.parent, s.edge, s.kind, s.agent, s.branch, s.tokens, s.read,
		s.isolated, s.inherit, s.remote, s.turn, s.source, s.trace, s.path = decode(raw)
end

-- What does. live counts children; due is the deadline that stands in
-- DEADLINES; waiting are the runs that wait; kept names what of "r", "u" is there.
local function encodeState(s)
	return pack(s.open, s.out, s.children, s.live, s.ended, s.deadline, s.due, s.updated, s.version,
		s.state, s.reason, s.context, s.owner, s.waiting, s.kept)
end

local function decodeState(raw, s)
	s.open, s.out, s.children, s.live, s.ended, s.deadline, s.due, s.updated, s.version,
		s.state, s.reason, s.context, s.owner, s.waiting, s.kept = decode(raw)
end

-- A run. length is that of its lease; held the agent whose cap it counts
-- against, or false; turn that of the call that holds it.
local function encodeRun(r)
	return pack(r.at, r.started, r.ended, r.gen, r.length, r.session, r.caller, r.message, r.task, r.state, r.reason,
		r.detached, r.held, r.turn)
end

local function decodeRun(raw, r)
	r.at, r.started, r.ended, r.gen, r.length, r.session, r.caller, r.message, r.task, r.state, r.reason,
		r.detached, r.held, r.turn = decode(raw)
	return r
end

local function terminal(state) return state == 'completed' or state == 'failed' or state == 'expired' end

-- The tree itself. meta is nil when there is none; dirty says that it changed.
-- agents is packed: only a spawn looks at it. Go reads it in trees.go.

local meta, dirty

do
	local m = redis.call('HMGET', META, 'n', 'v', 'agents', 'bound')
	if m[1] then
		meta = {agents = m[3], bound = tonumber(m[4])}
		meta.started, meta.principal, meta.catchAll, meta.main = decode(m[1])
		meta.seq, meta.last, meta.token, meta.sessions, meta.live, meta.depth, meta.errors, meta.due,
			meta.fresh = decode(m[2])
	end
end

local function begin(principal, catchAll)
	meta = {principal = principal, catchAll = catchAll, main = '', agents = '', new = true,
		seq = 0, last = 0, token = 1, sessions = 0, live = 0, depth = 0, errors = 0,
		due = NEVER, fresh = now, bound = now, started = now}
end

-- Ids: what they name in this tree. See keys.go for the spelling of fields.

local ids, named = {}, {}

local function field(kind, agent, id) return kind .. #agent .. ':' .. agent .. id end

local function lookUp(fields)
	local got = redis.call('HMGET', IDS, unpack(fields))
	for i = 1, #fields do ids[fields[i]] = got[i] end
end

local function id(f)
	if ids[f] == nil then
		ids[f] = not meta.new and redis.call('HGET', IDS, f)
	end
	return ids[f]
end

local function name(f, value)
	ids[f], named[f] = value, true
end

-- Sessions and runs that were loaded or made, by id; false: there is none.

local sessions, runs = {}, {}

local function live(s) return s.open > 0 or s.state == 'suspended' end

local function load(wanted)
	local want, fields = {}, {}
	for _, sid in ipairs(wanted) do
		if sid and sid ~= '' and sessions[sid] == nil then
			sessions[sid] = false
			want[#want + 1] = sid
			fields[#fields + 1] = 'n:' .. sid
			fields[#fields + 1] = 'v:' .. sid
		end
	end
	if #want == 0 then return end
	local got = redis.call('HMGET', NODES, unpack(fields))
	for i, sid in ipairs(want) do
		local static, state = got[2 * i - 1], got[2 * i]
		if static and state then
			local s = {id = sid, packedNode = static}
			decodeNode(static, s)
			decodeState(state, s)
			s.counted = live(s)
			sessions[sid] = s
		end
	end
end

local function session(sid)
	load({sid})
	return sessions[sid]
end

local function run(rid)
	if runs[rid] == nil then
		local raw = redis.call('HGET', RUNS, rid)
		runs[rid] = raw and decodeRun(raw, {id = rid})
	end
	return runs[rid]
end

-- recount tells the parent and the tree that s takes a place, or no longer does.
local function recount(s)
	local is = live(s)
	if is == s.counted then return end
	s.counted = is
	local step = is and 1 or -1
	if s.kind ~= 'main' then meta.live, dirty = meta.live + step, true end
	if s.parent ~= '' then
		local parent = session(s.parent)
		parent.live = parent.live + step
		parent.dirty = true
	end
end

-- fate sets the state of a run; the tree counts the runs that failed.
local function fate(r, state, reason, at)
	if r.state == 'failed' then meta.errors = meta.errors - 1 end
	if state == 'failed' then meta.errors = meta.errors + 1 end
	dirty = true
	r.state, r.reason, r.ended, r.dirty = state, reason, at, true
end

-- The log.

local function quote(s) return cjson.encode(s) end

-- append logs an event of s, whose id is new by what it tells, and returns the
-- time it has: times never go backwards in a log.
local function append(s, by, eid, typ, payload)
	local at, seq = now, meta.seq + 1
	if at < meta.last then at = meta.last end
	redis.call('XADD', LOG, int(seq) .. '-1', 'id', eid, 'at', int(at), 'type', typ, 'session', s.id,
		'branch', s.branch, 'tokens', s.tokens, 'turn', by.turn, 'trace', by.trace, 'payload', payload)
	meta.seq, meta.last, dirty = seq, at, true
	s.version, s.updated, s.dirty = seq, at, true
	return at
end

-- What the ids of events begin with that SEEN does not know: append's.
local OWN = ' spawned sent resumed suspended ended run bound task collapsed '

-- logged looks for an id of these in the log. Nobody should tell of one, so no
-- index has them.
local function logged(eid)
	local from = '-'
	repeat
		local entries = redis.call('XRANGE', LOG, from, '+', 'COUNT', 1000)
		for _, entry in ipairs(entries) do
			if entry[2][2] == eid then return true end
			from = '(' .. entry[1]
		end
	until #entries < 1000
	return false
end

-- appendOnce logs an event that may be told again, unless the log has its id.
local function appendOnce(s, by, eid, typ, payload)
	local kind = string.match(eid, '^(%l+)/')
	if kind and string.find(OWN, ' ' .. kind .. ' ', 1, true) and logged(eid) then return false end
	if redis.call('HSETNX', SEEN, eid, int(meta.seq + 1)) == 0 then return false end
	append(s, by, eid, typ, payload)
	return true
end

-- What the caller has to do in other slots once this script is done.

local places = {}   -- at capped agents: op, agent, run, session, end of the lease; five by five
local bindings = {} -- ids that belong to the tree: kind, agent, id, whether it has just learnt it; four by four

local function place(op, r, lease)
	local p = places
	p[#p + 1], p[#p + 2], p[#p + 3], p[#p + 4], p[#p + 5] = op, r.held, r.id, r.session, lease
end

local function bind(kind, agent, bound, new)
	local b = bindings
	b[#b + 1], b[#b + 2], b[#b + 3], b[#b + 4] = kind, agent, bound, new
end

-- nameContext makes s the session that a context means: the first stays,
-- unless it has ended and a shared session takes over from it.
local function nameContext(s, context, takeOver)
	if context == '' then return end
	local new = false
	for _, f in ipairs({field('c', s.agent, context), 'x' .. context}) do
		local holder = id(f)
		if not holder or takeOver and terminal(session(holder).state) then
			name(f, s.id)
			new = true
		end
	end
	bind('context', s.agent, context, new)
end

