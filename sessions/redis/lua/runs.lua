-- runs.lua: how the runs of a tree open, wait and end, and its sessions with
-- them. It goes on after tree.lua.

-- Runs open and close.

local function lease(r, at)
	redis.call('ZADD', LEASES, int(at), r.id)
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

-- Results and usages that flush has yet to write: field, value.
local outcomes = {}

local function keep(s, e)
	for mark, value in pairs({r = e.result, u = e.usage}) do
		if value ~= '' then
			outcomes[#outcomes + 1], outcomes[#outcomes + 2] = mark .. ':' .. s.id, value
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
					redis.call('ZADD', DEADLINES, int(due), sid)
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

