-- tree.lua: what the functions over one tree have in common. They load what is
-- asked for, at most once, and keep it in tables; runs.lua and ending.lua change
-- them, and flush.lua writes what changed, so that a call costs the same few
-- commands however large the tree is.
--
-- Such a function begins with start. Its
-- KEYS  1 state, 2 log, 3 order of the tree (keys.go)
-- ARGV  1  now in microseconds; empty: the server's clock (always, in production)
--       2  how long the tree is kept after its last change, in milliseconds
--       3  the grace of sessions that are to end, in microseconds
--       4  who calls, and 5 the channel on which all are told (flush.lua)
--       6  the root
--       7… the function's own
--
-- Integers stay below 2^53, where Lua's doubles are exact. They are spelled by
-- int: in a string they must be, since Lua's own spelling turns to exponents at
-- 1e14; as an argument of a command it is much cheaper than the server's own.

-- What the server offers is not there yet while the library is loaded.
local call, pack, decode

local NEVER = 9007199254740991 -- 2^53 - 1: a time that does not come

local function int(n) return string.format('%d', n) end

-- What a call knows of its tree: start begins anew.

local KEYS, ARGV, STATE, LOG, ORDER
local now, retain, grace
local meta, dirty           -- the tree itself, nil when there is none; whether anything changed
local mainNode, mainState   -- the records of its root session
local ids, named            -- what ids name: field → value; fields that changed
local sessions, runs        -- that were loaded or made, by id; false: there is none
local moves                 -- in ORDER: member → score; false: it goes
local outcomes              -- results and usages to be written: field → value
local freed                 -- whether a place came free, which somebody may wait for
local places                -- at capped agents: op, agent, run, session, end of the lease; five by five
local bindings              -- ids that belong to the tree: kind, agent, id, whether it has just learnt it; four by four
local asker                 -- trace of the Change under way, which all it causes bears
local mayReach              -- how many sessions may yet be asked or ended because of others
local news                  -- for every sidecar: see ending.lua
local upkeep                -- what other slots need: see flush.lua

-- clock returns the time, given or the server's own.
local function clock(given)
	if given ~= '' then return tonumber(given) end
	local t = redis.call('TIME')
	return t[1] * 1000000 + t[2]
end

local function start(keys, argv)
	call, pack, decode = redis.call, cmsgpack.pack, cmsgpack.unpack
	KEYS, ARGV = keys, argv
	STATE, LOG, ORDER = keys[1], keys[2], keys[3]
	now, retain, grace = clock(argv[1]), tonumber(argv[2]), tonumber(argv[3])
	meta, dirty, mainNode, mainState = nil, false, nil, nil
	ids, named, sessions, runs, moves, outcomes = {}, {}, {}, {}, {}, {}
	freed, places, bindings, asker, mayReach = false, {}, {}, '', 200
	news, upkeep = {argv[4], '', argv[6], ''}, ''
end

-- Records are MessagePack values one after another: it is by far the fastest
-- the server offers (an array needs a table each way), and holds strings of any
-- bytes. Go reads them in record.go. What is not there is false. Each has its
-- two functions here, in one order.

-- What never changes of a session. number is its place in spawn order, from 1;
-- path is id, agent, … from the root on, packed.
local function encodeNode(s)
	return pack(s.number, s.depth, s.ordinal, s.created, s.parent, s.edge, s.kind, s.agent, s.branch, s.tokens, s.read,
		s.isolated, s.inherit, s.remote, s.abandon, s.turn, s.source, s.trace, s.path, s.ttl)
end

local function decodeNode(raw, s)
	s.number, s.depth, s.ordinal, s.created, s.parent, s.edge, s.kind, s.agent, s.branch, s.tokens, s.read,
		s.isolated, s.inherit, s.remote, s.abandon, s.turn, s.source, s.trace, s.path, s.ttl = decode(raw)
end

-- What does. out counts the open runs that came out of it, live its live
-- children, runs its runs; open and waiting are its runs that are; due is when
-- it stands in ORDER; cascade says that its end has not reached all below it;
-- kept names what of result, usage ("R", "U") is there; asked says that the log
-- tells that it was asked to stop.
local function encodeState(s)
	return pack(s.out, s.children, s.live, s.runs, s.due, s.cascade, s.open, s.waiting, s.kept,
		s.ended, s.deadline, s.updated, s.version, s.state, s.reason, s.ending, s.reserved, s.context, s.owner, s.asked)
end

local function decodeState(raw, s)
	s.out, s.children, s.live, s.runs, s.due, s.cascade, s.open, s.waiting, s.kept,
		s.ended, s.deadline, s.updated, s.version, s.state, s.reason, s.ending, s.reserved, s.context, s.owner,
		s.asked = decode(raw)
end

-- A run. number is its place in its session, from 1; length is that of its
-- lease; held the agent whose cap it counts against, or false; turn that of
-- the call that holds it.
local function encodeRun(r)
	return pack(r.number, r.gen, r.length, r.started, r.ended, r.session, r.caller, r.message, r.task, r.state, r.reason,
		r.detached, r.held, r.turn)
end

local function decodeRun(raw, r)
	r.number, r.gen, r.length, r.started, r.ended, r.session, r.caller, r.message, r.task, r.state, r.reason,
		r.detached, r.held, r.turn = decode(raw)
	return r
end

local function terminal(state) return state == 'completed' or state == 'failed' or state == 'expired' end

-- The tree itself. agents is packed: only a spawn looks at it. Go reads it in
-- trees.go. For the spelling of fields see keys.go.

local function field(kind, agent, id) return kind .. #agent .. ':' .. agent .. id end

-- look reads the tree, if it is there, and with it the fields that most calls of
-- a function need. The rest is read when it is asked for.
local function look(fields)
	local got = call('HMGET', STATE, 'n', 'v', 'agents', 'bound', 'wanted', 'N', 'V', unpack(fields))
	for i, f in ipairs(fields) do ids[f] = got[7 + i] end
	if not got[1] then return end
	meta = {agents = got[3], bound = tonumber(got[4]), wanted = tonumber(got[5] or 0)}
	meta.started, meta.principal, meta.catchAll, meta.main = decode(got[1])
	meta.seq, meta.last, meta.token, meta.sessions, meta.live, meta.depth, meta.errors, meta.due,
		meta.fresh, meta.listed, meta.made, meta.old, meta.endings = decode(got[2])
	mainNode, mainState = got[6], got[7]
end

local function begin(principal, catchAll)
	meta = {principal = principal, catchAll = catchAll, main = '', agents = '', new = true, wanted = 0,
		seq = 0, last = 0, token = 1, sessions = 0, live = 0, depth = 0, errors = 0,
		due = NEVER, fresh = now, listed = NEVER, bound = now, started = now, made = 0, old = 0, endings = 0}
end

local function id(f)
	if ids[f] == nil then
		ids[f] = not meta.new and call('HGET', STATE, f)
	end
	return ids[f]
end

local function name(f, value)
	ids[f], named[f] = value, true
end

local function live(s) return s.reserved or #s.open > 0 or #s.waiting > 0 end

-- suffix is what the fields of a session end with: its id, and nothing for the
-- root session, so that it can be read before its id is known.
local function suffix(sid) return sid == meta.main and '' or sid end

local function loaded(sid, node, state)
	local s = {id = sid, packedNode = node}
	decodeNode(node, s)
	decodeState(state, s)
	s.counted = live(s)
	sessions[sid] = s
end

local function load(wanted)
	local want, fields = {}, {}
	for _, sid in ipairs(wanted) do
		if sid and sid ~= '' and sessions[sid] == nil then
			if sid == meta.main and mainNode then
				loaded(sid, mainNode, mainState)
			else
				sessions[sid] = false
				want[#want + 1] = sid
				fields[#fields + 1] = 'N' .. sid
				fields[#fields + 1] = 'V' .. sid
			end
		end
	end
	if #want == 0 then return end
	local got = call('HMGET', STATE, unpack(fields))
	for i, sid in ipairs(want) do
		local node, state = got[2 * i - 1], got[2 * i]
		if node and state then loaded(sid, node, state) end
	end
end

local function session(sid)
	if sessions[sid] == nil then load({sid}) end
	return sessions[sid]
end

local function run(rid)
	if runs[rid] == nil then
		local raw = call('HGET', STATE, 'r' .. rid)
		runs[rid] = raw and decodeRun(raw, {id = rid})
	end
	return runs[rid]
end

local function loadRuns(wanted)
	local want, fields = {}, {}
	for _, rid in ipairs(wanted) do
		if runs[rid] == nil then want[#want + 1], fields[#fields + 1] = rid, 'r' .. rid end
	end
	for i = 1, #want, 1000 do
		for j, raw in ipairs(call('HMGET', STATE, unpack(fields, i, math.min(i + 999, #want)))) do
			local rid = want[i + j - 1]
			runs[rid] = raw and decodeRun(raw, {id = rid})
		end
	end
end

-- runsOf returns the runs of a list, in the order in which they started.
local function runsOf(list)
	loadRuns(list)
	local found = {}
	for i, rid in ipairs(list) do found[i] = run(rid) end
	table.sort(found, function(a, b) return a.number < b.number end)
	return found
end

-- ORDER keeps three orders, in one set so that a call writes all in one
-- command: by scores below 0 the sessions below each other that have not ended,
-- or have open runs all the same; from 0 on when a session is due, from LEASES
-- on when a lease ends.

local LEASES = 4503599627370496 -- 2^52: as scores, times stay exact until 2112

local function asLease(rid) return 'r' .. rid end

local function asDue(sid) return 's' .. sid end

-- By spawn order under one parent.
local function asChild(s) return string.format('c%010d', s.ordinal) .. s.id end

local function writeOrder()
	local add, remove = {}, {}
	for member, score in pairs(moves) do
		if score then
			add[#add + 1], add[#add + 2] = int(score), member
		else
			remove[#remove + 1] = member
		end
	end
	for i = 1, #add, 1000 do call('ZADD', ORDER, unpack(add, i, math.min(i + 999, #add))) end
	for i = 1, #remove, 1000 do call('ZREM', ORDER, unpack(remove, i, math.min(i + 999, #remove))) end
	moves = {}
end

-- recount tells the parent and the tree that s takes a place, or no longer does.
-- One that has ended does while a run is open in it.
local function recount(s)
	local is = live(s)
	if is == s.counted then return end
	s.counted = is
	local step = is and 1 or -1
	if not is then freed = true end
	if s.kind ~= 'main' then meta.live, dirty = meta.live + step, true end
	if s.parent ~= '' then
		local parent = session(s.parent)
		parent.live = parent.live + step
		parent.dirty = true
		if terminal(s.state) and not s.abandon then moves[asChild(s)] = is and -parent.number end
	end
end

-- The log.

local function quote(s) return cjson.encode(s) end

-- append logs an event of s, whose id is new by what it tells, and returns the
-- time it has: times never go backwards in a log.
local function append(s, by, eid, typ, payload)
	local at, seq = now, meta.seq + 1
	if at < meta.last then at = meta.last end
	call('XADD', LOG, int(seq) .. '-1', 'id', eid, 'at', int(at), 'type', typ, 'session', s.id,
		'branch', s.branch, 'tokens', s.tokens, 'turn', by.turn, 'trace', by.trace, 'payload', payload)
	meta.seq, meta.last, dirty = seq, at, true
	s.version, s.updated, s.dirty = seq, at, true
	return at
end

-- nth ends the id of the next event where the rest of it may stand in the log.
local function nth() return '/' .. int(meta.seq + 1) end

-- What the ids of events begin with that no "e" field tells of: append's.
local OWN = ' spawned sent resumed suspended ended run bound task collapsed cancel result summary '

-- logged looks for an id of these in the log. Nobody should tell of one, so no
-- index has them.
local function logged(eid)
	local from = '-'
	repeat
		local entries = call('XRANGE', LOG, from, '+', 'COUNT', 1000)
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
	if call('HSETNX', STATE, 'e' .. eid, int(meta.seq + 1)) == 0 then return false end
	append(s, by, eid, typ, payload)
	return true
end

local function place(op, r, lease)
	local p = places
	p[#p + 1], p[#p + 2], p[#p + 3], p[#p + 4], p[#p + 5] = op, r.held, r.id, r.session, lease
end

local function bind(kind, agent, bound, new)
	local b = bindings
	b[#b + 1], b[#b + 2], b[#b + 3], b[#b + 4] = kind, agent, bound, new
end

-- ended reports whether no call can find s any more, but one that knows its
-- task or sends its message again.
local function ended(s) return s.ending ~= '' or terminal(s.state) end

-- nameContext makes s the session that a context means: the first stays,
-- unless it has ended and a shared session takes over from it.
local function nameContext(s, context, takeOver)
	if context == '' then return end
	local new = false
	for _, f in ipairs({field('c', s.agent, context), 'x' .. context}) do
		local holder = id(f)
		if not holder or takeOver and ended(session(holder)) then
			name(f, s.id)
			new = true
		end
	end
	bind('context', s.agent, context, new)
end

