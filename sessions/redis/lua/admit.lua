-- admit.lua: one admission, whole or not at all (sessions.Admission).
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1, 2 as in tree.lua; then the fields named below. Times are in
--       microseconds, flags "1" or empty, caps 0 for none. deepest is
--       lineage.Limits.Deepest; agentRuns what counts against maxConcurrent;
--       sent the members of the payload, after a comma, with the closing brace.
-- Returns after the six of reply
--   refused: reason, limit, value, count, parent's label, parent's id
--   ok: session, its two records, result, usage, parent's context, run, gen,
--       flags (n new, r retry, g goes on, w had waited, t tree made), other sessions made
--       (packed), lease till
--   taken: the id for the new session is in use

local a = {
	root = ARGV[3], principal = ARGV[4], catchAll = ARGV[5], localAgent = ARGV[6], callerContext = ARGV[7],
	siblingOf = ARGV[8], callerDepth = ARGV[9], mainID = ARGV[10], remoteID = ARGV[11], agent = ARGV[12],
	kind = ARGV[13], isolated = ARGV[14], inherit = ARGV[15], ttl = ARGV[16], turn = ARGV[17], trace = ARGV[18],
	source = ARGV[19], resolve = ARGV[20], context = ARGV[21], session = ARGV[22], run = ARGV[23],
	message = ARGV[24], task = ARGV[25], maxChildren = ARGV[26], maxFanOut = ARGV[27], maxSessions = ARGV[28],
	maxVisits = ARGV[29], deepest = ARGV[30], maxConcurrent = ARGV[31], agentRuns = ARGV[32], owner = ARGV[33],
	lease = ARGV[34], sent = ARGV[35], crossed = ARGV[36]
}
local by = {turn = a.turn, trace = a.trace}

if meta and meta.principal ~= a.principal then
	meta = nil -- nothing of it is touched or told
	return reply('refused', 'CONTEXT_FORBIDDEN', '', 0, 0, '', '')
end

-- Look: who calls, and which session and run the call finds.

-- child makes a session that hangs nowhere yet.
local function child(parent, sid, agent)
	local s = {id = sid, new = true, agent = agent, state = 'active', reason = '', context = '', owner = '',
		isolated = false, remote = false, waiting = {}, kept = '', tokens = '', read = '', path = '',
		open = 0, out = 0, children = 0, live = 0, ended = false, deadline = false, due = false, counted = false}
	if parent then
		s.parent, s.edge, s.depth = parent.id, 'spawn', parent.depth + 1
		s.ordinal = parent.children + 1
		s.branch = parent.branch .. '.' .. agent .. '@' .. int(s.ordinal)
		s.path = parent.path
	else
		s.parent, s.edge, s.depth, s.ordinal, s.branch = '', 'root', 0, 0, agent
	end
	s.path = s.path .. pack(sid, agent)
	return s
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

local of = #a.agent .. ':' .. a.agent -- as field spells it
local atTask, atMessage, atContext, atSibling = 't' .. of .. a.task, 'm' .. of .. a.message,
	'c' .. of .. a.context, 'c' .. of .. a.siblingOf
local atCaller, atShared, atTurn = 'x' .. a.callerContext, 's' .. a.agent, 'u' .. a.turn
if not meta.new then
	-- What most calls need at once; the rest is read when it is asked for.
	local fields = {atMessage, atContext, 'x' .. a.context}
	if a.task ~= '' then fields[#fields + 1] = atTask end
	if a.turn ~= '' then fields[#fields + 1] = atTurn end
	if a.siblingOf ~= '' then fields[#fields + 1] = atSibling end
	if a.callerContext ~= '' and a.callerContext ~= a.root then fields[#fields + 1] = atCaller end
	if a.resolve == 'agent' then fields[#fields + 1] = atShared end
	lookUp(fields)
end

local rid, sid, retry
local names = a.task ~= '' and id(atTask)
if not names then
	names = id(atMessage)
	retry = names and true
end
if names then
	rid, sid = decode(names)
elseif a.resolve == 'context' and a.context ~= '' then
	sid = id(atContext)
elseif a.resolve == 'agent' then
	sid = id(atShared)
end
local sibling = a.siblingOf ~= '' and id(atSibling)
local callerID = meta.main
if a.siblingOf == '' and a.callerContext ~= '' and a.callerContext ~= a.root then callerID = id(atCaller) end
local r = rid and run(rid)
local goesOn = r and not terminal(r.state)
local holds = goesOn and r.state == 'active' -- it has its place already
local waited = goesOn and not holds
if goesOn then callerID, sibling = r.caller, nil end -- it stays that caller's
load({callerID, sid, sibling, not names and a.session or ''})

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
else
	caller = session(callerID) or main
end

local s = sid and session(sid)
if s and not names and terminal(s.state) then s = nil end
local parent = caller
if s then parent = session(s.parent) end
if not s and (sessions[a.session] or a.session == a.mainID or placeholder and a.session == a.remoteID) then
	return reply('taken')
end

-- Check the caps: lineage.Limits.Check, in its order.

local function refusal()
	local function over(reason, limit, value, count, p)
		p = p or caller
		return {reason, limit, value, count, p.branch, p.id}
	end
	if caller.kind == 'worker' then return over('LEAF_SESSION', '', 0, 0) end
	if terminal(caller.state) then return over('PARENT_ENDED', '', 0, 0) end
	if not s then
		local depth, deepest = caller.depth + 1, tonumber(a.deepest)
		if depth > deepest then return over('DEPTH_LIMIT', 'maxDepth', deepest, depth) end
		local most = tonumber(a.maxVisits)
		if most > 0 then
			local path, visits = {decode(caller.path)}, 1
			for i = 2, #path, 2 do
				if path[i] == a.agent then visits = visits + 1 end
			end
			if visits > most then return over('LOOP_LIMIT', 'maxVisits', most, visits) end
		end
		most = tonumber(a.maxSessions)
		if most > 0 and meta.catchAll ~= '1' then
			local made
			if a.turn ~= '' then
				made = tonumber(id(atTurn) or 0)
			else -- lineage.SessionsWindow
				made = redis.call('ZCOUNT', MADE, '(' .. int(now - 3600000000), '+inf')
			end
			if made >= most then return over('SESSIONS_LIMIT', 'maxSessions', most, made) end
		end
	end
	if holds then return end
	local most = tonumber(a.maxChildren)
	local siblings = parent and parent.live or 0
	if most > 0 and not (s and live(s)) and siblings >= most then
		return over('CHILDREN_LIMIT', 'maxChildren', most, siblings, parent or {branch = '', id = ''})
	end
	most = tonumber(a.maxFanOut)
	if most > 0 and caller.out >= most then return over('FANOUT_LIMIT', 'maxFanOut', most, caller.out) end
	most = tonumber(a.maxConcurrent)
	local count = tonumber(a.agentRuns)
	if most > 0 and count >= most then return over('CONCURRENCY_LIMIT', 'maxConcurrent', most, count) end
end

local over = refusal()
if over then
	return reply('refused', unpack(over))
end

-- Write.

local function comma(tokens, token)
	return tokens == '' and int(token) or tokens .. ',' .. int(token)
end

-- spawn hangs n, a child of above (nil: the root), in the tree and logs it.
local function spawn(n, above)
	if above then
		above.children, above.dirty = above.children + 1, true
		if n.inherit == 'full' then
			n.tokens, n.read = comma(above.tokens, meta.token), comma(above.read, meta.token)
		else
			n.tokens, n.read = int(meta.token), int(meta.token)
		end
		meta.token = meta.token + 1
	end
	n.turn, n.trace = a.turn, a.trace
	sessions[n.id] = n
	meta.sessions, meta.depth = meta.sessions + 1, math.max(meta.depth, n.depth)
	local known = false
	for _, agent in ipairs({decode(meta.agents)}) do known = known or agent == n.agent end
	if not known then meta.agents, meta.moreAgents = meta.agents .. pack(n.agent), true end
	n.created = append(n, by, 'spawned/' .. n.id, 'session.spawned', table.concat({
		'{"parent":', quote(n.parent), ',"edge":"', n.edge, '","kind":', quote(n.kind), ',"agent":', quote(n.agent),
		',"contextId":', quote(n.context), ',"depth":', int(n.depth), ',"ordinal":', int(n.ordinal),
		',"read":[', n.read, '],"isolated":', tostring(n.isolated),
		',"inherit":', quote(n.inherit), ',"remote":', tostring(n.remote),
		',"parentSource":', quote(n.source), '}'}))
	n.at = meta.seq
end

local others, treeMade, new = {}, meta.new, not s
if treeMade then
	meta.main = main.id
	spawn(main, nil)
	meta.started = main.created
	nameContext(main, a.root, false)
	others[#others + 1] = main.id
end
if placeholder then
	spawn(placeholder, main)
	nameContext(placeholder, a.callerContext, false)
	others[#others + 1] = placeholder.id
end
if new then
	s = child(caller, a.session, a.agent)
	s.kind, s.context, s.isolated, s.inherit, s.source = a.kind, a.context, a.isolated == '1', a.inherit, a.source
	spawn(s, caller)
	nameContext(s, a.context, a.resolve ~= '')
	if a.resolve == 'agent' then name(atShared, s.id) end
	redis.call('ZADD', MADE, int(s.created), s.id)
	if a.turn ~= '' then name(atTurn, (id(atTurn) or 0) + 1) end
end

if not goesOn then
	r = {id = a.run, session = s.id, caller = caller.id, message = a.message, task = a.task, state = '', reason = '', gen = 0,
		ended = false, held = false}
	runs[r.id] = r
end
local till = now + tonumber(a.lease)
r.gen, r.length, r.detached, r.turn, r.dirty, dirty = r.gen + 1, tonumber(a.lease), false, a.turn, true, true
if tonumber(a.maxConcurrent) > 0 then
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
	if waited then resume(s, r, till, by) end
	local eid = 'sent/' .. a.agent .. '/' .. a.message
	if id(atMessage) then eid = 'sent/' .. r.id .. '/' .. int(r.gen) end
	local task = a.task ~= '' and ',"taskId":' .. quote(a.task) or ''
	local at = append(s, by, eid, 'message.sent', '{"run":' .. quote(r.id) .. ',"caller":' .. quote(r.caller) ..
		',"messageId":' .. quote(a.message) .. task .. a.sent)
	if not goesOn then
		open(s, r, till)
		r.at, r.started = meta.seq, at
	end
	if not holds and s.open >= 2 and not s.remote and s.kind ~= 'main' then
		append(s, by, 'collapsed/' .. r.id .. '/' .. int(r.gen), 'context.collapsed',
			'{"run":' .. quote(r.id) .. ',"contextId":' .. quote(s.context) .. ',"open":' .. int(s.open) .. '}')
	end
end

name(atMessage, pack(r.id, s.id))
if a.task ~= '' then
	bind('task', a.agent, a.task, not id(atTask))
	name(atTask, pack(r.id, s.id))
end
local ttl = tonumber(a.ttl)
if ttl > 0 then s.deadline = now + ttl end
s.owner, s.dirty = a.owner, true

local kept = {false, false}
if s.kept ~= '' then kept = redis.call('HMGET', NODES, 'r:' .. s.id, 'u:' .. s.id) end
local parentContext = parent and parent.context or ''
local flags = (new and 'n' or '') .. (retry and 'r' or '') .. (goesOn and 'g' or '') .. (waited and 'w' or '') .. (treeMade and 't' or '')
flushed = flush()
return reply('ok', s.id, s.packedNode, s.packedState, kept[1] or '', kept[2] or '', parentContext,
	r.id, r.gen, flags, pack(others), till)
