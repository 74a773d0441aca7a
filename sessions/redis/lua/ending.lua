-- ending.lua: how sessions end, what is told of it, and what it ends below
-- them. It goes on after runs.lua.

local function origin(s) return {turn = s.turn, trace = asker} end

-- tellToStop adds a run to the news, which are: who tells, "1" if a place came
-- free in the tree, the root, an agent at which one did (never here); then the
-- runs that are to stop: session, run, agent, task, reason, what is left of the
-- grace, six by six.
local function tellToStop(s, r)
	local n = news
	n[#n + 1], n[#n + 2], n[#n + 3], n[#n + 4], n[#n + 5], n[#n + 6] =
		s.id, r.id, s.agent, r.task, s.ending, math.max(0, s.deadline - now)
end

-- ask asks a session to stop, unless it has been asked already: what is open in
-- it has the grace to end by itself. One in which a run was opened after its end
-- may have been asked before that.
local function ask(s, reason)
	if s.ending ~= '' then return end
	append(s, origin(s), 'cancel/' .. s.id .. (s.asked and nth() or ''), 'session.cancel_requested',
		'{"reason":' .. quote(reason) .. ',"graceMs":' .. int(grace / 1000) .. '}')
	s.ending, s.deadline, s.asked = reason, now + grace, true
	meta.endings = meta.endings + 1
	local all = {}
	for _, list in ipairs({s.open, s.waiting}) do
		for _, rid in ipairs(list) do all[#all + 1] = rid end
	end
	for _, r in ipairs(runsOf(all)) do tellToStop(s, r) end
end

-- resultOf is the result of s as it stands, raw JSON, or nil.
local function resultOf(s)
	if not string.find(s.kept, 'R', 1, true) then return nil end
	return outcomes['R' .. suffix(s.id)] or call('HGET', STATE, 'R' .. suffix(s.id))
end

-- endAlone ends s, and with it every run that is open or waits in it, and r,
-- which has closed already (nil: none), and tells its parent.
local function endAlone(s, r, typ, e, by)
	local at = append(s, by, outcome('ended/' .. s.id, e), typ, endPayload(e))
	loadRuns(s.open)
	loadRuns(s.waiting)
	for _, rid in ipairs(s.open) do
		close(s, run(rid))
		fate(run(rid), e.state, e.reason, at)
	end
	for _, rid in ipairs(s.waiting) do fate(run(rid), e.state, e.reason, at) end
	if r then fate(r, e.state, e.reason, at) end
	if s.ending ~= '' then meta.endings = meta.endings - 1 end
	s.state, s.reason, s.ended = e.state, e.reason, at
	s.waiting, s.ending, s.reserved = {}, '', false
	keep(s, e)
	recount(s)
	if s.parent == '' then return end
	if not s.abandon then moves[asChild(s)] = false end
	local result = resultOf(s)
	append(session(s.parent), by, outcome('result/' .. s.id, e), 'session.result', '{"session":' .. quote(s.id) ..
		',"agent":' .. quote(s.agent) .. ',"state":' .. quote(e.state) ..
		(e.reason ~= '' and ',"reason":' .. quote(e.reason) or '') .. (result and ',"result":' .. result or '') .. '}')
end

-- reach asks all below s that works to stop, and ends what does not, in spawn
-- order, from the top down. It returns false if it could not reach all in this
-- call: what is left stays due.
local function reach(s)
	local from, page = 0
	repeat
		page = call('ZRANGEBYSCORE', ORDER, -s.number, -s.number, 'LIMIT', from, 100)
		from = from + #page
		for i, member in ipairs(page) do page[i] = string.sub(member, 12) end -- after "c" and the ordinal
		load(page)
		for _, sid in ipairs(page) do
			local c = session(sid)
			local over = terminal(c.state) -- what is below it was reached
			local works = #c.open > 0 or #c.waiting > 0
			if works or not over then
				if not (works and c.ending ~= '') then
					if mayReach == 0 then return false end
					mayReach = mayReach - 1
				end
				if works then
					ask(c, 'orphaned')
				else
					endAlone(c, nil, 'session.expired',
						{state = 'expired', reason = 'parent_ended', result = '', usage = ''}, origin(c))
				end
				if not over and not reach(c) then return false end
			end
		end
	until #page < 100
	return true
end

local function cascade(s)
	s.cascade, s.dirty = not reach(s) and now, true
end

local function endSession(s, r, typ, e, by)
	endAlone(s, r, typ, e, by)
	cascade(s)
end

-- finish ends run r as e says, and its session too if that ends with its last
-- run. gen is that of the grant of whoever tells; false: nobody told, its lease
-- has lapsed.
local function finish(s, r, e, gen, by)
	local lost = e.state == 'failed' and e.reason == 'lost'
	local guessed = r.state == 'failed' and r.reason == 'lost'
	if lost and gen and gen ~= r.gen then return end -- a newer call holds the run
	if terminal(r.state) and (not guessed or lost) then return end
	if r.state == 'active' then close(s, r) end
	if r.state == 'suspended' then s.waiting = without(s.waiting, r.id) end

	local lostBefore = s.state == 'failed' and s.reason == 'lost'
	local ends = #s.open == 0
	if terminal(s.state) then
		-- lineage.State.CanBecome; and a lost session is not lost again by a later run.
		ends = ends and lostBefore and not lost
	elseif not (s.isolated or s.kind == 'worker') then
		ends = ends and #s.waiting == 0 and (s.ending ~= '' or not gen and s.kind ~= 'main')
	elseif not gen then
		ends = ends and #s.waiting == 0
	end
	if ends then
		endSession(s, r, e.state == 'failed' and 'session.failed' or 'session.completed', e, by)
	else
		endRun(s, r, e, by)
	end
end

-- dueOf is when s is due, or false.
local function dueOf(s)
	if terminal(s.state) and (s.cascade or #s.open == 0) then return s.cascade end
	if s.kind == 'main' and s.ending == '' then return false end
	return s.deadline
end

-- schedule keeps in ORDER when the sessions are due that changed.
local function schedule()
	for sid, s in pairs(sessions) do
		if s and s.dirty then
			local due = dueOf(s)
			if due ~= s.due then
				moves[asDue(sid)] = due
				if due and due < meta.due then meta.due = due end
				s.due, dirty = due, true
			end
		end
	end
end

-- force ends a session whose grace is over, or what was opened in it after its
-- end.
local function force(s)
	local e = {state = 'failed', reason = s.ending, result = '', usage = ''}
	if s.ending == 'expired' then e.state, e.reason = 'expired', '' end
	if not terminal(s.state) then
		endSession(s, nil, 'session.' .. e.state, e, origin(s))
		return
	end
	for _, r in ipairs(runsOf(s.open)) do
		close(s, r)
		e.run = r.id
		endRun(s, r, e, origin(s))
	end
end

-- lapse settles what is due, at most so many of each: first the runs nobody
-- renewed, then the sessions whose time is over.
local function lapse(most)
	if now < meta.due then return end
	local lapsed = call('ZRANGEBYSCORE', ORDER, int(LEASES), int(LEASES + now), 'LIMIT', 0, most)
	for i, member in ipairs(lapsed) do lapsed[i] = string.sub(member, 2) end
	loadRuns(lapsed)
	for _, rid in ipairs(lapsed) do
		local r = run(rid)
		-- One may have ended with the session of another.
		if r.state == 'active' then
			finish(session(r.session), r, {run = r.id, state = 'failed', reason = 'lost', result = '', usage = ''}, false,
				{turn = r.turn, trace = ''})
		end
	end
	schedule()
	writeOrder()
	local over = call('ZRANGEBYSCORE', ORDER, '0', int(now), 'LIMIT', 0, most)
	for i, member in ipairs(over) do over[i] = string.sub(member, 2) end
	load(over)
	for _, sid in ipairs(over) do
		local s = session(sid)
		local due = dueOf(s)
		if not due or due > now then
			-- It has been asked to stop, or has ended, with one before it.
		elseif terminal(s.state) and s.cascade then
			cascade(s)
		elseif s.ending ~= '' then
			force(s)
		elseif #s.open > 0 or #s.waiting > 0 then
			ask(s, 'expired')
		else
			endSession(s, nil, 'session.expired', {state = 'expired', reason = '', result = '', usage = ''}, origin(s))
		end
	end
	schedule()
	writeOrder()
	meta.due, dirty = NEVER, true
	local due = call('ZRANGEBYSCORE', ORDER, '0', '(' .. int(LEASES), 'WITHSCORES', 'LIMIT', 0, 1)
	if due[2] then meta.due = tonumber(due[2]) end
	local ends = call('ZRANGEBYSCORE', ORDER, int(LEASES), int(NEVER), 'WITHSCORES', 'LIMIT', 0, 1)
	if ends[2] then meta.due = math.min(meta.due, tonumber(ends[2]) - LEASES) end
end

