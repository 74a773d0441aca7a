-- unclaim.lua: takes back what an id belongs to.
--
-- KEYS  1 the binding
-- ARGV  1 what it must hold
-- Returns 1 if it was taken back

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
