-- change.lua: a step that somebody asked a session to take (sessions.Change).
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; then the fields named below, result raw JSON or empty
-- Returns what reply does, then
--   missing: what is not there
--   ok, conflict: the session, its two records, result, usage, and whether a
--   run in it waits for an answer

-- lineage.Verb.Check
local function allowed(s, verb, waits)
	if terminal(s.state) then return false end
	if verb ~= 'suspend' and verb ~= 'resume' then return true end
	if s.kind ~= 'branch' or s.ending ~= '' then return false end
	if verb == 'suspend' then return s.state ~= 'suspended' end
	return s.state == 'suspended' and not waits
end

local verbs = {}

local function endBy(s, state, reason, result, by)
	endSession(s, nil, 'session.' .. state, {state = state, reason = reason, result = result, usage = ''}, by)
end

function verbs.complete(s, a, by) endBy(s, 'completed', '', a.result, by) end

function verbs.fail(s, a, by) endBy(s, 'failed', a.reason, a.result, by) end

function verbs.cancel(s, _, by)
	if #s.open > 0 or #s.waiting > 0 then
		ask(s, 'canceled')
	else
		endBy(s, 'failed', 'canceled', '', by)
	end
end

function verbs.suspend(s, _, by)
	local opened = runsOf(s.open)
	for _, r in ipairs(opened) do suspend(s, r, 'requested', by) end
	if #opened == 0 then
		append(s, by, 'suspended/' .. s.id .. nth(), 'session.suspended', '{"reason":"requested"}')
	end
	s.state = 'suspended'
end

-- The gen of a run stays: whoever held it when it was suspended holds it still.
function verbs.resume(s, _, by)
	local waiting = runsOf(s.waiting)
	for _, r in ipairs(waiting) do
		resume(s, r, now + r.length, by, nth())
		if r.held then place('+', r, now + r.length) end
	end
	if #waiting == 0 then
		append(s, by, 'resumed/' .. s.id .. nth(), 'session.resumed', '{}')
	end
	s.state = 'active'
end

local function change(keys, argv)
	start(keys, argv)
	local a = {session = ARGV[7], verb = ARGV[8], reason = ARGV[9], result = ARGV[10], trace = ARGV[11]}
	look({})
	if not meta then return reply('missing', 'tree') end
	local s = session(a.session)
	if not s then return reply('missing', 'session') end
	lapse(100)

	asker = a.trace
	local waits = false
	for _, rid in ipairs(s.waiting) do waits = waits or run(rid).reason ~= 'requested' end
	local may = allowed(s, a.verb, waits)
	if may then verbs[a.verb](s, a, {turn = s.turn, trace = a.trace}) end

	flush()
	local result, usage = kept(s)
	return reply(may and 'ok' or 'conflict', s.id, s.packedNode, s.packedState or encodeState(s), result, usage,
		waits and 1 or 0)
end
