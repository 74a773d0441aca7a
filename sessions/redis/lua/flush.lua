-- flush.lua: what the scripts over one tree end with. It goes on after runs.lua.

-- flush writes what changed, and prolongs the life of the tree's keys once a
-- hundredth of it has passed. It returns what of that the caller has to do for
-- the keys in other slots: "f" the list of trees, "b" the ids bound to the tree.
local function flush()
	if not meta or meta.new and not dirty then return '' end -- refused: the tree is not made
	schedule()
	local nodes, changed, fields = outcomes, {}, {}
	for sid, s in pairs(sessions) do
		if s and s.dirty then
			local n = #nodes
			if s.new then
				s.packedNode = encodeNode(s)
				nodes[n + 1], nodes[n + 2] = 'n:' .. sid, s.packedNode
				n = n + 2
			end
			s.packedState = encodeState(s)
			nodes[n + 1], nodes[n + 2] = 'v:' .. sid, s.packedState
		end
	end
	for rid, r in pairs(runs) do
		if r and r.dirty then changed[#changed + 1], changed[#changed + 2] = rid, encodeRun(r) end
	end
	for f in pairs(named) do fields[#fields + 1], fields[#fields + 2] = f, ids[f] end
	if #nodes > 0 then redis.call('HSET', NODES, unpack(nodes)) end
	if #changed > 0 then redis.call('HSET', RUNS, unpack(changed)) end
	if #fields > 0 then redis.call('HSET', IDS, unpack(fields)) end
	if not dirty then return '' end

	local upkeep, keep = '', meta.new
	if not meta.new then
		if now - meta.fresh > retain * 10 then -- µs in 1 % of ms
			meta.fresh, upkeep, keep = now, 'f', true
		end
		if now - meta.bound > retain * 250 then upkeep = upkeep .. 'b' end
	end
	redis.call('HSET', META, 'v', pack(meta.seq, meta.last, meta.token, meta.sessions, meta.live, meta.depth,
		meta.errors, meta.due, meta.fresh))
	if meta.moreAgents then redis.call('HSET', META, 'agents', meta.agents) end
	if meta.new then
		redis.call('HSET', META, 'bound', int(meta.bound), 'n',
			pack(meta.started, meta.principal, meta.catchAll, meta.main))
		-- Keys live as long as the tree from here on, those too that are empty
		-- yet; and a set that runs empty would lose its key and its life.
		redis.call('HSET', SEEN, '', '')
		redis.call('ZADD', LEASES, '+inf', '')
		redis.call('ZADD', DEADLINES, '+inf', '')
	end
	if keep then
		for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, retain) end
	end
	return upkeep
end

local flushed -- what flush returned, once a script has called it

-- reply is what every script returns: status, upkeep (see flush), start of the
-- tree, its principal, places and bindings (packed), then the script's own.
local function reply(status, ...)
	if not meta then return {status, '', 0, '', pack(places), pack(bindings), ...} end
	return {status, flushed or flush(), meta.started, meta.principal, pack(places), pack(bindings), ...}
end
