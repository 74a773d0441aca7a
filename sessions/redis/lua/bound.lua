-- bound.lua: notes that the ids bound to a tree have been prolonged.
--
-- KEYS  1 the tree's meta
-- ARGV  1 now in microseconds, empty for the server's clock
-- Returns 1 if the tree is there

local function bound(keys, argv)
	if redis.call('EXISTS', keys[1]) == 0 then return 0 end
	redis.call('HSET', keys[1], 'bound', int(clock(argv[1])))
	return 1
end
