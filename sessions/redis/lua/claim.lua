-- claim.lua: makes an id belong to a tree unless it belongs to one already.
-- One's own claim is prolonged.
--
-- KEYS  1 the binding
-- ARGV  1 what it is to hold   2 its life in milliseconds
-- Returns what it holds

local function claim(keys, argv)
	local held = redis.call('GET', keys[1])
	if not held then
		redis.call('SET', keys[1], argv[1], 'PX', argv[2])
		return argv[1]
	end
	if held == argv[1] then redis.call('PEXPIRE', keys[1], argv[2]) end
	return held
end
