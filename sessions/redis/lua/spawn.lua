-- spawn.lua: how sessions are made, and counted. It goes on after flush.lua.

-- child makes a session that hangs nowhere yet, below parent (nil: the root).
local function child(parent, sid, agent)
	local s = {id = sid, new = true, agent = agent, state = 'active', reason = '', ending = '', context = '', owner = '',
		ttl = 0, isolated = false, remote = false, abandon = false, reserved = false, cascade = false, asked = false, counted = false,
		open = {}, waiting = {}, kept = '', tokens = '', read = '', out = 0, children = 0, live = 0, runs = 0,
		ended = false, deadline = false, due = false}
	if parent then
		s.parent, s.edge, s.depth = parent.id, 'spawn', parent.depth + 1
		s.ordinal = parent.children + 1
		s.branch = parent.branch .. '.' .. agent .. '@' .. int(s.ordinal)
		s.path = parent.path .. pack(sid, agent)
	else
		s.parent, s.edge, s.depth, s.ordinal, s.branch, s.path = '', 'root', 0, 0, agent, pack(sid, agent)
	end
	return s
end

local function comma(tokens, token)
	return tokens == '' and token or tokens .. ',' .. token
end

local function knowsAgent(agent)
	for _, known in ipairs({decode(meta.agents)}) do
		if known == agent then return true end
	end
	return false
end

-- spawn hangs s, a child of parent (nil: the root), in the tree and logs it. A
-- placeholder, and the root, do not count as made.
local function spawn(s, parent, by, counts)
	if parent then
		local token = int(meta.token)
		parent.children, parent.dirty = parent.children + 1, true
		if s.inherit == 'full' then
			s.tokens, s.read = comma(parent.tokens, token), comma(parent.read, token)
		else
			s.tokens, s.read = token, token
		end
		meta.token = meta.token + 1
		if not s.abandon then moves[asChild(s)] = -parent.number end
	end
	s.turn, s.trace = by.turn, by.trace
	sessions[s.id] = s
	meta.sessions, meta.depth = meta.sessions + 1, math.max(meta.depth, s.depth)
	if counts then meta.made = meta.made + 1 end
	s.number = meta.sessions
	if not knowsAgent(s.agent) then meta.agents, meta.moreAgents = meta.agents .. pack(s.agent), true end
	s.created = append(s, by, 'spawned/' .. s.id, 'session.spawned', table.concat({
		'{"parent":', quote(s.parent), ',"edge":"', s.edge, '","kind":', quote(s.kind), ',"agent":', quote(s.agent),
		',"contextId":', quote(s.context), ',"depth":', int(s.depth), ',"ordinal":', int(s.ordinal),
		',"read":[', s.read, '],"isolated":', tostring(s.isolated),
		',"inherit":', quote(s.inherit), ',"remote":', tostring(s.remote), ',"parentSource":', quote(s.source),
		s.reserved and ',"reserved":true' or '', s.abandon and ',"abandon":true' or '', '}'}))
	name('#' .. int(s.number), pack(s.id, s.created, meta.made))
end

-- madeSince counts the sessions that were made later than at. As times ascend
-- in spawn order, only the last that is not later is looked for: from where it
-- was found before (meta.old), in steps that double, and then between two.
local function madeSince(at)
	local function later(number)
		local _, created, made = decode(call('HGET', STATE, '#' .. int(number)))
		return created > at, made
	end
	local low, step = meta.old, 1 -- low is not later, or 0
	local high = meta.sessions + 1
	while low + step < high do
		if later(low + step) then high = low + step else low, step = low + step, step * 2 end
	end
	while low + 1 < high do
		local middle = math.floor((low + high) / 2)
		if later(middle) then high = middle else low = middle end
	end
	meta.old = low
	if low == 0 then return meta.made end
	local _, made = later(low)
	return meta.made - made
end

