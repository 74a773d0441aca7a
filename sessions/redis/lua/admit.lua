-- admit.lua: one admission, whole or not at all (sessions.Admission).
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; then the fields named below. Times are in
--       microseconds, flags "1" or empty, caps 0 for none. deepest is
--       lineage.Limits.Deepest; agentRuns what counts against maxConcurrent;
--       sent the members of the payload, after a comma, with the closing brace;
--       listed how soon the list of what is due will have the tree, or empty.
-- Returns what reply does, then
--   refused: reason, limit, value, count, parent's label, parent's id
--   ok: session, its two records, result, usage, parent's context, run, gen,
--       flags (n new, r retry, g goes on, w had waited, t tree made), other sessions made
--       (packed), lease till
--   taken: the id for the new session is in use
--   missing: what is not there

local function over(p, reason, limit, value, count)
	return {reason, limit, value, count, p.branch, p.id}
end

-- refusal is lineage.Limits.Check: why a call out of caller to s (nil: one that
-- is to be made, below parent) may not go on, or nothing. holds says that it is
-- of a run that has its place already.
local function refusal(a, caller, s, parent, holds)
	if caller.kind == 'worker' then return over(caller, 'LEAF_SESSION', '', 0, 0) end
	if ended(caller) then return over(caller, 'PARENT_ENDED', '', 0, 0) end
	if not s then
		local depth = caller.depth + 1
		if depth > a.deepest then return over(caller, 'DEPTH_LIMIT', 'maxDepth', a.deepest, depth) end
		if a.maxVisits > 0 then
			local path, visits = {decode(caller.path)}, 1
			for i = 2, #path, 2 do
				if path[i] == a.agent then visits = visits + 1 end
			end
			if visits > a.maxVisits then return over(caller, 'LOOP_LIMIT', 'maxVisits', a.maxVisits, visits) end
		end
		if a.maxSessions > 0 and meta.catchAll ~= '1' then
			local made
			if a.turn ~= '' then
				made = tonumber(id('u' .. a.turn) or 0)
			else
				made = madeSince(now - 3600000000) -- lineage.SessionsWindow
			end
			if made >= a.maxSessions then return over(caller, 'SESSIONS_LIMIT', 'maxSessions', a.maxSessions, made) end
		end
	end
	if holds then return end
	local siblings = parent and parent.live or 0
	if a.maxChildren > 0 and not (s and live(s)) and siblings >= a.maxChildren then
		return over(parent or {branch = '', id = ''}, 'CHILDREN_LIMIT', 'maxChildren', a.maxChildren, siblings)
	end
	if a.ahead then return end
	if a.maxFanOut > 0 and caller.out >= a.maxFanOut then
		return over(caller, 'FANOUT_LIMIT', 'maxFanOut', a.maxFanOut, caller.out)
	end
	if a.maxConcurrent > 0 and a.agentRuns >= a.maxConcurrent then
		return over(caller, 'CONCURRENCY_LIMIT', 'maxConcurrent', a.maxConcurrent, a.agentRuns)
	end
end

-- grant is the reply to one that may go on, below parent (nil: the root session).
local function grant(s, parent, r, flags, others, till)
	flush()
	local result, usage = kept(s)
	return reply('ok', s.id, s.packedNode, s.packedState or encodeState(s), result, usage,
		parent and parent.context or '', r and r.id or '', r and r.gen or 0, flags, packed(others), till)
end

local function admit(keys, argv)
	start(keys, argv)
	local a = {
		root = ARGV[6], principal = ARGV[7], catchAll = ARGV[8], localAgent = ARGV[9], callerContext = ARGV[10],
		siblingOf = ARGV[11], callerSession = ARGV[12], callerDepth = ARGV[13], mainID = ARGV[14], remoteID = ARGV[15],
		agent = ARGV[16], kind = ARGV[17], isolated = ARGV[18], inherit = ARGV[19], ttl = tonumber(ARGV[20]), turn = ARGV[21],
		trace = ARGV[22], source = ARGV[23], resolve = ARGV[24], context = ARGV[25], session = ARGV[26], run = ARGV[27],
		message = ARGV[28], task = ARGV[29], named = ARGV[30], abandon = ARGV[31], ahead = ARGV[32] == '1',
		request = ARGV[33], summary = ARGV[34], maxChildren = tonumber(ARGV[35]), maxFanOut = tonumber(ARGV[36]),
		maxSessions = tonumber(ARGV[37]), maxVisits = tonumber(ARGV[38]), deepest = tonumber(ARGV[39]),
		maxConcurrent = tonumber(ARGV[40]), agentRuns = tonumber(ARGV[41]), waits = tonumber(ARGV[42]), owner = ARGV[43],
		lease = tonumber(ARGV[44]), sent = ARGV[45], crossed = ARGV[46], listed = ARGV[47]
	}
	local by = {turn = a.turn, trace = a.trace}

	-- Look: who calls, and which session and run the call finds.

	local byContext = a.callerSession == '' and a.siblingOf == '' and a.callerContext ~= '' and a.callerContext ~= a.root
	local of = #a.agent .. ':' .. a.agent -- as field spells it
	local atTask, atMessage, atContext, atSibling = 't' .. of .. a.task, 'm' .. of .. a.message,
		'c' .. of .. a.context, 'c' .. of .. a.siblingOf
	local atNamed, atCaller, atShared, atTurn, atRequest = 'c' .. of .. a.named, 'x' .. a.callerContext, 's' .. a.agent,
		'u' .. a.turn, 'q' .. a.request
	local atSession = 'N' .. a.session
	do
		local fields = {atMessage, atContext, 'x' .. a.context, atSession}
		if a.task ~= '' then fields[#fields + 1] = atTask end
		if a.named ~= '' and a.named ~= a.context then fields[#fields + 1] = atNamed end
		if a.turn ~= '' then fields[#fields + 1] = atTurn end
		if a.siblingOf ~= '' then fields[#fields + 1] = atSibling end
		if byContext then fields[#fields + 1] = atCaller end
		if a.resolve == 'agent' then fields[#fields + 1] = atShared end
		if a.request ~= '' then fields[#fields + 1] = atRequest end
		look(fields)
	end
	if meta and meta.principal ~= a.principal and not a.ahead then
		meta = nil -- nothing of it is touched or told
		return reply('refused', 'CONTEXT_FORBIDDEN', '', 0, 0, '', '')
	end

	local main
	if meta then
		lapse(100)
	else
		begin(a.principal, a.catchAll)
		local remote = a.callerContext ~= '' and a.callerContext ~= a.root
		-- A remote one lives beside some other sidecar.
		main = child(nil, a.mainID, remote and 'root' or a.localAgent)
		main.kind, main.context, main.inherit, main.source = 'main', a.root, 'full', a.source
		main.remote = remote
	end

	local names, retry
	if a.ahead then
		local known = a.request ~= '' and id(atRequest)
		if known then
			local s = session(known)
			return grant(s, session(s.parent), nil, 'r', {}, 0)
		end
	else
		names = a.task ~= '' and id(atTask)
		if not names then
			names = id(atMessage)
			retry = names and true
		end
	end
	local rid, sid, reservedID
	if names then
		rid, sid = decode(names)
	elseif not a.ahead then
		reservedID = a.named ~= '' and id(atNamed)
		if a.resolve == 'context' and a.context ~= '' then
			sid = id(atContext)
		elseif a.resolve == 'agent' then
			sid = id(atShared)
		end
	end
	local r = rid and run(rid)
	local goesOn = r and not terminal(r.state)
	local holds = goesOn and r.state == 'active' -- it has its place already
	local waited = goesOn and not holds
	local callerID, sibling = meta.main
	if goesOn then
		callerID = r.caller -- it stays that caller's
	elseif a.callerSession ~= '' then
		callerID = a.callerSession
	elseif a.siblingOf ~= '' then
		sibling = id(atSibling)
	elseif byContext then
		callerID = id(atCaller)
	end
	load({callerID or '', sid or '', reservedID or '', sibling or ''})

	local caller, placeholder
	if not main then main = session(meta.main) end
	if sibling then
		caller = session(session(sibling).parent) or main
	elseif not callerID then -- never of a run that goes on
		placeholder = child(main, a.remoteID, a.localAgent)
		placeholder.kind, placeholder.context, placeholder.remote = 'branch', a.callerContext, true
		placeholder.inherit, placeholder.source = 'full', a.source
		placeholder.depth = math.max(1, tonumber(a.callerDepth))
		caller = placeholder
	elseif callerID == meta.main then
		caller = main
	else
		caller = session(callerID)
		if not caller then return reply('missing', 'session ' .. callerID) end
	end

	local s = sid and session(sid)
	if s and not names and ended(s) then s = nil end
	local reserved = reservedID and session(reservedID)
	if reserved and reserved.reserved and not ended(reserved) then s = reserved end
	local parent = caller
	if s then parent = session(s.parent) end
	if not s and (ids[atSession] or a.session == a.mainID or placeholder and a.session == a.remoteID) then
		return reply('taken')
	end

	-- Whoever is unknown calls, for all that is known, below the root session.
	local no = refusal(a, placeholder and ended(main) and main or caller, s, parent, holds)
	if no then
		if a.waits > 0 and not meta.new and (no[1] == 'CHILDREN_LIMIT' or no[1] == 'FANOUT_LIMIT') then
			-- Who frees a place shall tell: see tellAll.
			if meta.wanted < now + a.waits then call('HSET', STATE, 'wanted', int(now + a.waits)) end
		end
		return reply('refused', unpack(no))
	end

	-- Write.

	local others, treeMade, new = {}, meta.new, not s
	if treeMade then
		meta.main = main.id
		spawn(main, nil, by, false)
		meta.started = main.created
		nameContext(main, a.root, false)
		others[#others + 1] = main.id
	end
	if placeholder then
		spawn(placeholder, main, by, false)
		nameContext(placeholder, a.callerContext, false)
		others[#others + 1] = placeholder.id
	end
	if new then
		s = child(caller, a.session, a.agent)
		s.kind, s.context, s.isolated, s.inherit, s.source = a.kind, a.context, a.isolated == '1', a.inherit, a.source
		s.abandon, s.reserved, s.ttl = a.abandon == '1', a.ahead, a.ttl
		spawn(s, caller, by, true)
		nameContext(s, a.context, a.resolve ~= '')
		if a.resolve == 'agent' then name(atShared, s.id) end
		if a.turn ~= '' then name(atTurn, (id(atTurn) or 0) + 1) end
	end
	if s.ending == '' then
		if s.ttl > 0 then
			s.deadline = now + s.ttl
		elseif terminal(s.state) then
			s.deadline = false -- what is left of a grace is no time
		end
	end
	s.owner, s.dirty, dirty = a.owner, true, true
	if a.listed ~= '' then
		-- The list has it at this time at the latest, and at the one it had it
		-- before if that is still to come.
		local at = now + tonumber(a.listed)
		if meta.listed <= now or meta.listed > at then meta.listed = at end
	end

	local flags = (new and 'n' or '') .. (retry and 'r' or '') .. (goesOn and 'g' or '') .. (waited and 'w' or '') .. (treeMade and 't' or '')
	if a.ahead then
		if a.summary ~= '' then append(s, by, 'summary/' .. s.id, 'context.summary', a.summary) end
		if a.request ~= '' then name(atRequest, s.id) end
		recount(s)
		return grant(s, parent, nil, flags, others, 0)
	end

	if not goesOn then
		s.runs = s.runs + 1
		r = {id = a.run, number = s.runs, session = s.id, caller = caller.id, message = a.message, task = a.task, state = '',
			reason = '', gen = 0, ended = false, held = false}
		runs[r.id] = r
		name('o' .. int(r.number) .. ':' .. suffix(s.id), r.id)
	end
	local till = now + a.lease
	r.gen, r.length, r.detached, r.turn, r.dirty = r.gen + 1, a.lease, false, a.turn, true
	if a.maxConcurrent > 0 then
		r.held = s.agent
	elseif not holds then
		r.held = false
	elseif r.held then
		place('+', r, till)
	end
	if holds then lease(r, till) end

	if not (retry and holds) then
		if a.crossed ~= '' then
			appendOnce(s, by, 'crossed/' .. r.id, 'context.crossed', '{"run":' .. quote(r.id) .. ',"contextId":' .. quote(a.crossed) .. '}')
		end
		if waited then
			resume(s, r, till, by)
		elseif not goesOn and s.state == 'suspended' and #s.waiting == 0 then
			resumed(s, r, by) -- it was suspended while nothing ran in it
		end
		local eid = 'sent/' .. a.agent .. '/' .. a.message
		if id(atMessage) then eid = 'sent/' .. r.id .. '/' .. int(r.gen) end
		local task = a.task ~= '' and ',"taskId":' .. quote(a.task) or ''
		local at = append(s, by, eid, 'message.sent', '{"run":' .. quote(r.id) .. ',"caller":' .. quote(r.caller) ..
			',"messageId":' .. quote(a.message) .. task .. a.sent)
		if not goesOn then
			s.reserved = false
			open(s, r, till)
			r.started = at
		end
		if not holds and #s.open >= 2 and not s.remote and s.kind ~= 'main' then
			append(s, by, 'collapsed/' .. r.id .. '/' .. int(r.gen), 'context.collapsed',
				'{"run":' .. quote(r.id) .. ',"contextId":' .. quote(s.context) .. ',"open":' .. int(#s.open) .. '}')
		end
	end

	name(atMessage, pack(r.id, s.id))
	if a.task ~= '' then
		bind('task', a.agent, a.task, not id(atTask))
		name(atTask, pack(r.id, s.id))
	end
	return grant(s, parent, r, flags, others, till)
end
