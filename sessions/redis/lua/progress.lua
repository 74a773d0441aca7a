-- progress.lua: what became of a run (sessions.Progress).
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; then the fields named below; then id, type and
--       payload of each event. Times are in microseconds, result and usage
--       raw JSON or empty.
-- Returns what reply does: ok, or missing, and then what is not there

-- sessions.TellsTask
local TELLS = {['task.status'] = true, ['task.artifact'] = true, ['message.received'] = true, ['task.bound'] = true}

local function progress(keys, argv)
	start(keys, argv)
	local a = {
		session = ARGV[7], run = ARGV[8], gen = tonumber(ARGV[9]), agent = ARGV[10], trace = ARGV[11], task = ARGV[12],
		context = ARGV[13], state = ARGV[14], reason = ARGV[15], result = ARGV[16], usage = ARGV[17],
		detach = tonumber(ARGV[18])
	}
	local events = 19 -- ARGV index of the first event

	local atRun, atTask, atSession = 'r' .. a.run, field('t', a.agent, a.task), a.session
	look({atRun, atTask, 'N' .. atSession, 'V' .. atSession})
	if not meta then return reply('missing', 'tree') end

	-- The records that were read with the tree.
	if a.run ~= '' then runs[a.run] = ids[atRun] and decodeRun(ids[atRun], {id = a.run}) end
	if ids['N' .. atSession] and atSession ~= '' then loaded(atSession, ids['N' .. atSession], ids['V' .. atSession]) end

	local r, sid
	if a.run ~= '' then
		r = run(a.run)
		if not r then return reply('missing', 'run') end
	elseif a.task ~= '' then
		local names = id(atTask)
		r = names and run((decode(names)))
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

	for i = events, #ARGV, 3 do
		-- An event that another run of the task has told tells nothing here.
		if appendOnce(s, by, ARGV[i], ARGV[i + 1], ARGV[i + 2]) and TELLS[ARGV[i + 1]] then untold = false end
	end
	if untold then
		append(s, by, 'task/' .. r.id, 'task.bound', '{"run":' .. quote(r.id) .. ',"taskId":' .. quote(r.task) .. '}')
	end

	local requested = r and r.state == 'suspended' and r.reason == 'requested'
	if r and a.state == 'active' then
		if r.state == 'suspended' and not requested then
			r.gen = r.gen + 1
			resume(s, r, now + r.length, by)
			if r.held then place('+', r, now + r.length) end
		end
	elseif r and a.state == 'suspended' then
		if requested then
			-- Now it waits for an answer as well, which alone can wake it.
			fate(r, 'suspended', '', false)
			append(s, by, 'suspended/' .. r.id .. '/' .. int(r.gen) .. '/waits', 'session.suspended', '{"run":' .. quote(r.id) .. '}')
		elseif r.state == 'active' and terminal(s.state) then
			-- It would wait for ever.
			close(s, r)
			endRun(s, r, {run = r.id, state = 'failed', reason = a.reason ~= '' and a.reason or 'input_required',
				result = '', usage = ''}, by)
		elseif r.state == 'active' then
			suspend(s, r, '', by)
		end
	elseif r and (a.state == 'completed' or a.state == 'failed') then
		finish(s, r, {run = r.id, state = a.state, reason = a.reason, result = a.result, usage = a.usage}, a.gen, by)
	end

	if r and a.detach > 0 and a.gen >= r.gen then
		if r.state == 'suspended' and r.reason == 'requested' then
			r.length, r.detached, r.dirty, dirty = a.detach, true, true, true -- for when it goes on
		elseif r.state == 'active' and leaseEnds(r) > now then -- else it is lost
			r.length, r.detached, r.dirty = a.detach, true, true
			lease(r, now + a.detach)
			if r.held then place('+', r, now + a.detach) end
		end
	end

	return reply('ok')
end
