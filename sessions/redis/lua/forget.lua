-- forget.lua: takes a tree that is no longer kept off the list of trees,
-- unless one of the same name has been made since.
--
-- KEYS  1 the list of trees
-- ARGV  1 the root   2 the start that was seen
-- Returns how many were taken off

if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) == tonumber(ARGV[2]) then
	return redis.call('ZREM', KEYS[1], ARGV[1])
end
return 0
