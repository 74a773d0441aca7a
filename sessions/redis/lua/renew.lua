-- renew.lua: prolongs the leases of runs that are still open. A lease that has
-- lapsed, or that no call holds any more, is left alone. Runs whose session is
-- being ended are told to stop again, whether they are open or wait.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; 7 the lease in microseconds; then id and gen of each run
-- Returns what reply does: always ok

local function renew(keys, argv)
	start(keys, argv)
	look({})
	if not meta then return reply('ok') end
	local length = tonumber(ARGV[7])

	local wanted, members = {}, {}
	for i = 8, #ARGV, 2 do
		wanted[#wanted + 1] = 'r' .. ARGV[i]
		members[#members + 1] = asLease(ARGV[i])
	end
	local records = call('HMGET', STATE, unpack(wanted))
	local leases = call('ZMSCORE', ORDER, unpack(members))

	dirty = true -- whoever renews keeps the tree
	for i, record in ipairs(records) do
		local r = record and decodeRun(record, {id = ARGV[2 * i + 6]})
		local till = leases[i] and leases[i] - LEASES
		if r and not terminal(r.state) then
			runs[r.id] = r
			-- One that waits has no lease.
			if till and till > now and not r.detached and tonumber(ARGV[2 * i + 7]) <= r.gen then
				lease(r, now + length)
				if r.length ~= length then r.length, r.dirty = length, true end
				if r.held then place('>', r, now + length) end
			end
			local s = meta.endings > 0 and session(r.session)
			if s and s.ending ~= '' then tellToStop(s, r) end
		end
	end
	return reply('ok')
end
