-- claim.lua: makes an id belong to a tree unless it belongs to one already.
-- One's own claim is prolonged.
--
-- KEYS  1 the binding
-- ARGV  1 what it is to hold   2 its life in milliseconds
-- Returns what it holds

local held = redis.call('GET', KEYS[1])
if not held then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	return ARGV[1]
end
if held == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return held
