-- unclaim.lua: takes back what an id belongs to.
--
-- KEYS  1 the binding
-- ARGV  1 what it must hold
-- Returns 1 if it was taken back

local function unclaim(keys, argv)
	if redis.call('GET', keys[1]) ~= argv[1] then return 0 end
	return redis.call('DEL', keys[1])
end
