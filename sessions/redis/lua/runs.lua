-- runs.lua: how the runs of a tree open, wait and end. It goes on after tree.lua.

-- fate sets the state of a run; the tree counts the runs that failed.
local function fate(r, state, reason, at)
	if r.state == 'failed' then meta.errors = meta.errors - 1 end
	if state == 'failed' then meta.errors = meta.errors + 1 end
	dirty = true
	r.state, r.reason, r.ended, r.dirty = state, reason, at, true
end

local function lease(r, at)
	moves[asLease(r.id)] = LEASES + at
	if at < meta.due then meta.due = at end
	dirty = true
end

local function outBy(r, step)
	local caller = session(r.caller)
	caller.out = caller.out + step
	caller.dirty = true
end

local function without(list, rid)
	local rest = {}
	for _, other in ipairs(list) do
		if other ~= rid then rest[#rest + 1] = other end
	end
	return rest
end

local function open(s, r, till)
	fate(r, 'active', '', false)
	s.open[#s.open + 1], s.dirty = r.id, true
	outBy(r, 1)
	lease(r, till)
	recount(s)
end

-- close gives back what an open run holds; its new state is the caller's to set.
local function close(s, r)
	s.open, s.dirty = without(s.open, r.id), true
	outBy(r, -1)
	moves[asLease(r.id)] = false
	if r.held then place('-', r, 0) end
	freed, dirty = true, true
end

-- leaseEnds is when the lease of an open run does.
local function leaseEnds(r)
	local member = asLease(r.id)
	return (moves[member] or call('ZSCORE', ORDER, member)) - LEASES
end

-- suspend makes an open run wait: for an answer, or (reason) since somebody
-- asked for it, which may be more than once in one gen.
local function suspend(s, r, reason, by)
	close(s, r)
	fate(r, 'suspended', reason, false)
	s.waiting[#s.waiting + 1] = r.id
	s.state = 'suspended'
	recount(s)
	append(s, by, 'suspended/' .. r.id .. '/' .. int(r.gen) .. (reason ~= '' and nth() or ''), 'session.suspended',
		'{"run":' .. quote(r.id) .. (reason ~= '' and ',"reason":' .. quote(reason) or '') .. '}')
end

local function resumed(s, r, by, more)
	if s.state == 'suspended' then s.state = 'active' end
	append(s, by, 'resumed/' .. r.id .. '/' .. int(r.gen) .. (more or ''), 'session.resumed', '{"run":' .. quote(r.id) .. '}')
end

-- resume lets a run that waits go on. Its gen is the new one already, or else
-- more ends the id of the event.
local function resume(s, r, till, by, more)
	s.waiting = without(s.waiting, r.id)
	open(s, r, till)
	resumed(s, r, by, more)
end

-- An end is {run, state, reason, result, usage}, the last two raw JSON or empty.

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
	for mark, value in pairs({R = e.result, U = e.usage}) do
		if value ~= '' then
			outcomes[mark .. suffix(s.id)] = value
			if not string.find(s.kept, mark, 1, true) then s.kept = s.kept .. mark end
		end
	end
end

-- endRun ends a run that holds nothing any more; its session goes on, or has
-- ended before.
local function endRun(s, r, e, by)
	local at = append(s, by, outcome('run/' .. r.id, e), 'run.ended', endPayload(e))
	fate(r, e.state, e.reason, at)
	keep(s, e)
	if s.state == 'suspended' and #s.waiting == 0 then s.state = 'active' end
	if s.ending ~= '' and terminal(s.state) and #s.open == 0 then
		s.ending, meta.endings = '', meta.endings - 1
	end
	recount(s)
end

