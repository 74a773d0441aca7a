-- claimdue.lua: hands out trees in which something is due. They stay on the
-- list, a little later: if whoever claims them dies, they come again.
--
-- KEYS  1 the list (due.lua)
-- ARGV  1 now in microseconds, empty for the server's clock
--       2 how many at most   3 how much later they stay, in microseconds
-- Returns when they are due again, then the trees

local function claimDue(keys, argv)
	local t = clock(argv[1])
	local again = int(t + argv[3])
	local claimed = redis.call('ZRANGEBYSCORE', keys[1], '-inf', int(t), 'LIMIT', 0, argv[2])
	for _, root in ipairs(claimed) do redis.call('ZADD', keys[1], again, root) end
	return {again, unpack(claimed)}
end
