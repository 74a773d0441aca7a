-- renew.lua: prolongs the leases of runs that are still open. A lease that has
-- lapsed, or that no call holds any more, is left alone.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1, 2 as in tree.lua; 3 the lease in microseconds; then id and gen of each run
-- Returns the six of reply: always ok

if not meta then return reply('ok') end
local length = tonumber(ARGV[3])

local wanted = {}
for i = 4, #ARGV, 2 do wanted[#wanted + 1] = ARGV[i] end
local records = redis.call('HMGET', RUNS, unpack(wanted))
local leases = redis.call('ZMSCORE', LEASES, unpack(wanted))

dirty = true -- whoever renews keeps the tree
for i, rid in ipairs(wanted) do
	local till = tonumber(leases[i] or nil)
	local r = records[i] and decodeRun(records[i], {id = rid})
	if r and till and till > now and not r.detached and tonumber(ARGV[2 * i + 3]) <= r.gen then
		lease(r, now + length)
		if r.length ~= length then
			r.length, r.dirty, runs[rid] = length, true, r
		end
		if r.held then place('>', r, now + length) end
	end
end
return reply('ok')
