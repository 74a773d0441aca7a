-- bound.lua: notes that the ids bound to a tree have been prolonged.
--
-- KEYS  1 the tree's meta
-- ARGV  1 now in microseconds, empty for the server's clock
-- Returns 1 if the tree is there

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local now = ARGV[1]
if now == '' then
	local t = redis.call('TIME')
	now = string.format('%d', t[1] * 1000000 + t[2])
end
redis.call('HSET', KEYS[1], 'bound', now)
return 1
