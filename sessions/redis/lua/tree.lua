-- tree.lua: what the scripts over one tree begin with. It loads what is asked
-- for, at most once, keeps it in tables, and writes what changed in one flush,
-- so that a call costs the same few commands however large the tree is.
--
-- KEYS  the keys of the tree, in the order of keys.go (keyring.tree)
-- ARGV  1  now in microseconds; empty: the server's clock (always, in production)
--       2  how long the tree is kept after its last change, in milliseconds
--       3… the script's own
--
-- Integers stay below 2^53, where Lua's doubles are exact. The server spells a
-- number in a command in full; in a string it must be spelled by int, since
-- Lua's own spelling turns to exponents at 1e14.

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

-- Records are MessagePack arrays: it is by far the fastest the server offers,
-- and holds strings of any bytes. Go reads them in record.go. What is not
-- there is false. Each has its two functions here, in one order.

local pack, decode = cmsgpack.pack, cmsgpack.unpack

-- What never changes of a session. path is {id, agent, …} from the root on.
local function encodeNode(s)
	return pack({s.depth, s.ordinal, s.created, s.at, s.parent, s.edge, s.kind, s.agent, s.branch, s.tokens, s.read,
		s.isolated, s.inherit, s.remote, s.turn, s.source, s.trace, s.path})
end

local function decodeNode(raw, s)
	s.depth, s.ordinal, s.created, s.at, s.parent, s.edge, s.kind, s.agent, s.branch, s.tokens, s.read,
		s.isolated, s.inherit, s.remote, s.turn, s.source, s.trace, s.path = unpack(decode(raw))
end

-- What does. live counts children; due is the deadline that stands in
-- DEADLINES; waiting are the runs that wait; kept names what of "r", "u" is there.
local function encodeState(s)
	return pack({s.open, s.out, s.children, s.live, s.ended, s.deadline, s.due, s.updated, s.version,
		s.state, s.reason, s.context, s.owner, s.waiting, s.kept})
end

local function decodeState(raw, s)
	s.open, s.out, s.children, s.live, s.ended, s.deadline, s.due, s.updated, s.version,
		s.state, s.reason, s.context, s.owner, s.waiting, s.kept = unpack(decode(raw))
end

-- A run. length is that of its lease; held the agent whose cap it counts
-- against, or false; turn that of the call that holds it.
local function encodeRun(r)
	return pack({r.at, r.started, r.ended, r.gen, r.length, r.session, r.caller, r.message, r.task, r.state, r.reason,
		r.detached, r.held, r.turn})
end

local function decodeRun(raw, r)
	r.at, r.started, r.ended, r.gen, r.length, r.session, r.caller, r.message, r.task, r.state, r.reason,
		r.detached, r.held, r.turn = unpack(decode(raw))
	return r
end

local function terminal(state) return state == 'completed' or state == 'failed' or state == 'expired' end

-- The tree itself. meta is nil when there is none; dirty says that it changed.

local meta, dirty

do
	local m = redis.call('HMGET', META, 'seq', 'last', 'token', 'sessions', 'live', 'depth', 'errors', 'due',
		'fresh', 'bound', 'started', 'principal', 'catchAll', 'main', 'agents')
	if m[1] then
		meta = {seq = tonumber(m[1]), last = tonumber(m[2]), token = tonumber(m[3]), sessions = tonumber(m[4]),
			live = tonumber(m[5]), depth = tonumber(m[6]), errors = tonumber(m[7]), due = tonumber(m[8]),
			fresh = tonumber(m[9]), bound = tonumber(m[10]), started = tonumber(m[11]),
			principal = m[12], catchAll = m[13], main = m[14], agents = decode(m[15])}
	end
end

local function begin(principal, catchAll)
	meta = {principal = principal, catchAll = catchAll, main = '', agents = {}, new = true,
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
			local s = {id = sid}
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

-- append logs an event of s, unless the log has its id, and returns the time
-- it has: times never go backwards in a log.
local function append(s, by, eid, typ, payload)
	local at = math.max(now, meta.last)
	if redis.call('HSETNX', SEEN, eid, meta.seq + 1) == 0 then return at end
	meta.seq, meta.last, dirty = meta.seq + 1, at, true
	redis.call('XADD', LOG, int(meta.seq) .. '-1', 'id', eid, 'at', at, 'type', typ, 'session', s.id,
		'branch', s.branch, 'tokens', s.tokens, 'turn', by.turn, 'trace', by.trace, 'payload', payload)
	s.version, s.updated, s.dirty = meta.seq, at, true
	return at
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

-- Runs open and close.

local function lease(r, at)
	redis.call('ZADD', LEASES, at, r.id)
	if at < meta.due then meta.due, dirty = at, true end
end

local function outBy(r, step)
	local caller = session(r.caller)
	caller.out = caller.out + step
	caller.dirty = true
end

local function open(s, r, till)
	fate(r, 'active', '', false)
	s.open, s.dirty = s.open + 1, true
	outBy(r, 1)
	lease(r, till)
	recount(s)
end

-- close gives back what an open run holds; its new state is the caller's to set.
local function close(s, r)
	s.open, s.dirty = s.open - 1, true
	outBy(r, -1)
	redis.call('ZREM', LEASES, r.id)
	if r.held then place('-', r, 0) end
end

local function waits(s, r)
	s.waiting[#s.waiting + 1], s.dirty = r.id, true
end

local function waitsNoMore(s, r)
	local rest = {}
	for _, rid in ipairs(s.waiting) do
		if rid ~= r.id then rest[#rest + 1] = rid end
	end
	s.waiting, s.dirty = rest, true
end

-- resume lets a run that waits go on. Its gen is the new one already.
local function resume(s, r, till, by)
	waitsNoMore(s, r)
	if s.state == 'suspended' then s.state = 'active' end
	open(s, r, till)
	append(s, by, 'resumed/' .. r.id .. '/' .. int(r.gen), 'session.resumed', '{"run":' .. quote(r.id) .. '}')
end

-- Ends. An end is {run, state, reason, result, usage}, the last two raw JSON.

local function outcome(prefix, e)
	local eid = prefix .. '/' .. e.state
	if e.reason ~= '' then eid = eid .. '/' .. e.reason end
	return eid
end

local function endPayload(e)
	local p = '{'
	if e.run then p = p .. '"run":' .. quote(e.run) .. ',' end
	p = p .. '"state":' .. quote(e.state)
	if e.reason ~= '' then p = p .. ',"reason":' .. quote(e.reason) end
	if e.result ~= '' then p = p .. ',"result":' .. e.result end
	if e.usage ~= '' then p = p .. ',"usage":' .. e.usage end
	return p .. '}'
end

local function keep(s, e)
	for mark, value in pairs({r = e.result, u = e.usage}) do
		if value ~= '' then
			redis.call('HSET', NODES, mark .. ':' .. s.id, value)
			if not string.find(s.kept, mark, 1, true) then s.kept = s.kept .. mark end
		end
	end
end

local function endRun(s, r, e, by)
	local at = append(s, by, outcome('run/' .. r.id, e), 'run.ended', endPayload(e))
	fate(r, e.state, e.reason, at)
	keep(s, e)
	if s.state == 'suspended' and #s.waiting == 0 then s.state = 'active' end
	s.dirty = true
	recount(s)
end

-- endSession ends s, and with it run r (if any) and those that wait.
local function endSession(s, r, typ, e, by)
	local at = append(s, by, outcome('ended/' .. s.id, e), typ, endPayload(e))
	s.state, s.reason, s.ended = e.state, e.reason, at
	if r then fate(r, e.state, e.reason, at) end
	for _, rid in ipairs(s.waiting) do fate(run(rid), e.state, e.reason, at) end
	s.waiting, s.dirty = {}, true
	keep(s, e)
	recount(s)
end

-- finish ends run r as e says, and its session too if that ends with its last
-- run. gen is that of the grant of whoever tells.
local function finish(s, r, e, gen, by)
	local ends = s.isolated or s.kind == 'worker'
	local lost = e.state == 'failed' and e.reason == 'lost'
	local guessed = r.state == 'failed' and r.reason == 'lost'
	if lost and gen ~= r.gen then return end -- a newer call holds the run
	if terminal(r.state) and (not guessed or lost) then return end
	if r.state == 'active' then close(s, r) end
	if r.state == 'suspended' then waitsNoMore(s, r) end
	-- lineage.State.CanBecome; and a lost session is not lost again by a later run.
	local may = not terminal(s.state) or s.state == 'failed' and s.reason == 'lost' and not lost
	if ends and s.open == 0 and may then
		endSession(s, r, e.state == 'failed' and 'session.failed' or 'session.completed', e, by)
	else
		endRun(s, r, e, by)
	end
end

-- schedule keeps the deadlines of the sessions that may expire: not while a
-- run is open in them, so that a sweep finds none that it must pass over.
local function schedule()
	for sid, s in pairs(sessions) do
		if s and s.dirty then
			local due = false
			if s.open == 0 and not terminal(s.state) and s.kind ~= 'main' then due = s.deadline end
			if due ~= s.due then
				if due then
					redis.call('ZADD', DEADLINES, due, sid)
					if due < meta.due then meta.due, dirty = due, true end
				else
					redis.call('ZREM', DEADLINES, sid)
				end
				s.due = due
			end
		end
	end
end

-- lapse settles what is due, at most so many of each: first the runs nobody
-- renewed, then the sessions past their deadline.
local function lapse(most)
	if now < meta.due then return end
	for _, rid in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, most)) do
		local r = run(rid)
		local s = session(r.session)
		finish(s, r, {run = rid, state = 'failed', reason = 'lost', result = '', usage = ''}, r.gen,
			{turn = r.turn, trace = ''})
	end
	schedule()
	for _, sid in ipairs(redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', now, 'LIMIT', 0, most)) do
		local s = session(sid)
		endSession(s, nil, 'session.expired', {state = 'expired', reason = '', result = '', usage = ''},
			{turn = s.turn, trace = ''})
	end
	schedule()
	meta.due, dirty = NEVER, true
	for _, key in ipairs({LEASES, DEADLINES}) do
		local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
		meta.due = math.min(meta.due, tonumber(first[2]) or NEVER)
	end
end

-- flush writes what changed, and prolongs the life of the tree's keys once a
-- hundredth of it has passed. It returns what of that the caller has to do for
-- the keys in other slots: "f" the list of trees, "b" the ids bound to the tree.
local function flush()
	schedule()
	local nodes, changed, fields = {}, {}, {}
	for sid, s in pairs(sessions) do
		if s and s.dirty then
			if s.new then nodes[#nodes + 1], nodes[#nodes + 2] = 'n:' .. sid, encodeNode(s) end
			nodes[#nodes + 1], nodes[#nodes + 2] = 'v:' .. sid, encodeState(s)
		end
	end
	for rid, r in pairs(runs) do
		if r and r.dirty then changed[#changed + 1], changed[#changed + 2] = rid, encodeRun(r) end
	end
	for f in pairs(named) do fields[#fields + 1], fields[#fields + 2] = f, ids[f] end
	if #nodes > 0 then redis.call('HSET', NODES, unpack(nodes)) end
	if #changed > 0 then redis.call('HSET', RUNS, unpack(changed)) end
	if #fields > 0 then redis.call('HSET', IDS, unpack(fields)) end
	if not dirty then return '' end

	local upkeep, keep = '', meta.new
	if not meta.new then
		if now - meta.fresh > retain * 10 then -- µs in 1 % of ms
			meta.fresh, upkeep, keep = now, 'f', true
		end
		if now - meta.bound > retain * 250 then upkeep = upkeep .. 'b' end
	end
	redis.call('HSET', META, 'seq', meta.seq, 'last', meta.last, 'token', meta.token, 'sessions', meta.sessions,
		'live', meta.live, 'depth', meta.depth, 'errors', meta.errors, 'due', meta.due, 'fresh', meta.fresh)
	if meta.moreAgents then redis.call('HSET', META, 'agents', pack(meta.agents)) end
	if meta.new then
		redis.call('HSET', META, 'bound', meta.bound, 'started', meta.started, 'principal', meta.principal,
			'catchAll', meta.catchAll, 'main', meta.main)
		-- Sets that run empty lose their key and with it their life: these stay.
		redis.call('ZADD', LEASES, '+inf', '')
		redis.call('ZADD', DEADLINES, '+inf', '')
	end
	if keep then
		for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, retain) end
	end
	return upkeep
end

-- reply is what every script returns: status, upkeep (see flush), start of the
-- tree, its principal, places and bindings (packed), then the script's own.
local function reply(status, ...)
	if not meta then return {status, '', 0, '', pack(places), pack(bindings), ...} end
	local upkeep = (not meta.new or dirty) and flush() or ''
	return {status, upkeep, meta.started, meta.principal, pack(places), pack(bindings), ...}
end

-- arguments names ARGV from the third on.
local function arguments(names)
	local a = {}
	for i = 1, #names do a[names[i]] = ARGV[i + 2] end
	return a
end
