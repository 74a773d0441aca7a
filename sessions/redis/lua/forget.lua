-- forget.lua: takes a tree that is no longer kept off the list of trees,
-- unless one of the same name has been made since.
--
-- KEYS  1 the list of trees
-- ARGV  1 the root   2 the start that was seen
-- Returns how many were taken off

local function forget(keys, argv)
	if tonumber(redis.call('ZSCORE', keys[1], argv[1]) or -1) == tonumber(argv[2]) then
		return redis.call('ZREM', keys[1], argv[1])
	end
	return 0
end
