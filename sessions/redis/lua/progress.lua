-- progress.lua: what became of a run (sessions.Progress).
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1, 2 as in tree.lua; then the fields named below; then id, type and
--       payload of each event. Times are in microseconds, result and usage
--       raw JSON or empty.
-- Returns the six of reply: ok, or missing with what is not there as seventh

local a = {
	session = ARGV[3], run = ARGV[4], gen = ARGV[5], agent = ARGV[6], trace = ARGV[7], task = ARGV[8],
	context = ARGV[9], state = ARGV[10], reason = ARGV[11], result = ARGV[12], usage = ARGV[13], detach = ARGV[14]
}
local events = 15 -- ARGV index of the first event

if not meta then return reply('missing', 'tree') end

local r, sid
if a.run ~= '' then
	r = run(a.run)
	if not r then return reply('missing', 'run') end
elseif a.task ~= '' then
	local named = id(field('t', a.agent, a.task))
	r = named and run((decode(named)))
end
sid = a.session
if sid == '' then
	if not r then return reply('missing', 'task') end
	sid = r.session
end
if r then load({sid, r.caller}) end -- its end changes both
local s = session(sid)
if not s or r and r.session ~= sid then return reply('missing', 'session') end
local by = {turn = r and r.turn or s.turn, trace = a.trace}

local untold = false -- the run's task is news, which the log must tell
if r and a.task ~= '' then
	if r.task == '' then
		r.task, r.dirty, dirty = a.task, true, true
		untold = true
		local f = field('t', s.agent, a.task)
		if not id(f) then name(f, pack(r.id, s.id)) end
		bind('task', s.agent, a.task, true)
	elseif r.task == a.task then
		bind('task', s.agent, a.task, false)
	end
end

if a.context ~= '' then
	local alias = s.context ~= ''
	local holder = a.context ~= s.context and id(field('c', s.agent, a.context))
	if a.context == s.context or holder == s.id then
		bind('context', s.agent, a.context, false)
	elseif not alias or not holder then
		if not alias then s.context = a.context end
		nameContext(s, a.context, false)
		append(s, by, 'bound/' .. s.id .. '/' .. a.context, 'context.bound',
			'{"contextId":' .. quote(a.context) .. (alias and ',"alias":true}' or '}'))
	end
end

-- sessions.TellsTask
local tells = {['task.status'] = true, ['task.artifact'] = true, ['message.received'] = true, ['task.bound'] = true}
for i = events, #ARGV, 3 do
	-- An event that another run of the task has told tells nothing here.
	if appendOnce(s, by, ARGV[i], ARGV[i + 1], ARGV[i + 2]) and tells[ARGV[i + 1]] then untold = false end
end
if untold then
	append(s, by, 'task/' .. r.id, 'task.bound', '{"run":' .. quote(r.id) .. ',"taskId":' .. quote(r.task) .. '}')
end

if r and a.state == 'active' then
	if r.state == 'suspended' then
		r.gen = r.gen + 1
		resume(s, r, now + r.length, by)
		if r.held then place('+', r, now + r.length) end
	end
elseif r and a.state == 'suspended' then
	if r.state == 'active' then
		close(s, r)
		if terminal(s.state) then
			-- It would wait for ever.
			endRun(s, r, {run = r.id, state = 'failed', reason = a.reason ~= '' and a.reason or 'input_required',
				result = '', usage = ''}, by)
		else
			fate(r, 'suspended', '', false)
			waits(s, r)
			s.state = 'suspended'
			recount(s)
			append(s, by, 'suspended/' .. r.id .. '/' .. int(r.gen), 'session.suspended', '{"run":' .. quote(r.id) .. '}')
		end
	end
elseif r and (a.state == 'completed' or a.state == 'failed') then
	finish(s, r, {run = r.id, state = a.state, reason = a.reason, result = a.result, usage = a.usage},
		tonumber(a.gen), by)
end

local detach = tonumber(a.detach)
if r and detach > 0 and r.state == 'active' then
	r.length, r.detached, r.dirty, dirty = detach, true, true, true
	lease(r, now + detach)
	if r.held then place('+', r, now + detach) end
end

return reply('ok')
