-- flush.lua: what the functions over one tree end with. It goes on after ending.lua.

local function writeState(pairs)
	for i = 1, #pairs, 2000 do call('HSET', STATE, unpack(pairs, i, math.min(i + 1999, #pairs))) end
end

-- flush writes what changed, and prolongs the life of the tree's keys once a
-- hundredth of it has passed. It returns what of that the caller has to do for
-- the keys in other slots: "f" the list of trees, "b" the ids bound to the
-- tree, "d" the list of what is due.
local function flush()
	if not meta or not dirty then return upkeep end -- the tree is not made, or as it was
	schedule()
	if next(moves) then writeOrder() end

	local w, n = {}, 0
	local function set(f, value)
		w[n + 1], w[n + 2] = f, value
		n = n + 2
	end
	for sid, s in pairs(sessions) do
		if s and s.dirty then
			local of = suffix(sid)
			if s.new then
				s.packedNode = encodeNode(s)
				set('N' .. of, s.packedNode)
			end
			s.packedState = encodeState(s)
			set('V' .. of, s.packedState)
		end
	end
	for rid, r in pairs(runs) do
		if r and r.dirty then set('r' .. rid, encodeRun(r)) end
	end
	for f in pairs(named) do set(f, ids[f]) end
	for f, value in pairs(outcomes) do set(f, value) end

	local prolong = meta.new
	upkeep = ''
	if not meta.new then
		if now - meta.fresh > retain * 10 then -- µs in 1 % of ms
			meta.fresh, upkeep, prolong = now, 'f', true
		end
		if now - meta.bound > retain * 250 then upkeep = upkeep .. 'b' end
	end
	-- What was due when the list has the tree may be settled by now. (What is due
	-- still is for whoever claims it there.)
	if meta.due < meta.listed or meta.listed <= now and meta.due > now and meta.due < NEVER then
		meta.listed, upkeep = meta.due, upkeep .. 'd'
	end
	set('v', pack(meta.seq, meta.last, meta.token, meta.sessions, meta.live, meta.depth, meta.errors, meta.due,
		meta.fresh, meta.listed, meta.made, meta.old, meta.endings))
	if meta.moreAgents then set('agents', meta.agents) end
	if meta.new then
		set('bound', int(meta.bound))
		set('n', pack(meta.started, meta.principal, meta.catchAll, meta.main))
		-- It lives as long as the tree from here on; a set that ran empty would
		-- lose its key and its life.
		call('ZADD', ORDER, '+inf', '')
	end
	writeState(w)
	dirty = false
	if prolong then
		for _, key in ipairs(KEYS) do call('PEXPIRE', key, ARGV[2]) end
	end
	return upkeep
end

-- tellAll tells every sidecar what concerns it, and returns it packed: that a
-- place came free only if somebody waits for one in this tree.
local function tellAll()
	if freed and meta and meta.wanted > now then news[2] = '1' end
	if news[2] == '' and #news == 4 then return '' end
	local told = pack(news)
	call('PUBLISH', ARGV[5], told)
	return told
end

-- kept returns the result and the usage of s as they are written: raw JSON, or empty.
local function kept(s)
	if s.kept == '' then return '', '' end
	local got = call('HMGET', STATE, 'R' .. suffix(s.id), 'U' .. suffix(s.id))
	return got[1] or '', got[2] or ''
end

local function packed(list) return #list > 0 and pack(list) or '' end

-- reply is what every function that may change a tree returns: status, upkeep (see flush), when the tree
-- is due next, its start and principal, what was told to all, places and
-- bindings (packed, or empty), then its own.
local function reply(status, ...)
	local upkeep = flush()
	local m = meta or {due = NEVER, started = 0, principal = ''}
	return {status, upkeep, m.due, m.started, m.principal, tellAll(), packed(places), packed(bindings), ...}
end

