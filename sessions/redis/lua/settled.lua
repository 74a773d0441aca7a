-- settled.lua: puts trees that were claimed (claimdue.lua) where they belong
-- on the list, unless they were put on it anew since.
--
-- KEYS  1 the list (due.lua)
-- ARGV  1 the score they were given; then tree and when it is due next, or empty
-- Returns how many were moved

local function settled(keys, argv)
	local moved = 0
	for i = 2, #argv, 2 do
		local root, at = argv[i], argv[i + 1]
		if redis.call('ZSCORE', keys[1], root) == argv[1] then
			if at == '' then
				redis.call('ZREM', keys[1], root)
			else
				redis.call('ZADD', keys[1], at, root)
			end
			moved = moved + 1
		end
	end
	return moved
end
