-- due.lua: puts a tree on the list of those in which something will be due.
--
-- KEYS  1 the list: a sorted set, score = when a tree is due, in microseconds
-- ARGV  1 now in microseconds, empty for the server's clock
--       2 the tree   3 when it is due   4 instead: in how many microseconds
--       5 life of the list in milliseconds
-- Returns 1
--
-- One that is on it no later stays, but a microsecond later: who has claimed it
-- meanwhile (claimdue.lua) and did not see what is new now leaves it there.

local function due(keys, argv)
	local at = tonumber(argv[3])
	if not at then at = clock(argv[1]) + argv[4] end
	local had = tonumber(redis.call('ZSCORE', keys[1], argv[2]) or nil)
	if had and had <= at then at = had + 1 end
	redis.call('ZADD', keys[1], int(at), argv[2])
	redis.call('PEXPIRE', keys[1], argv[5])
	return 1
end
