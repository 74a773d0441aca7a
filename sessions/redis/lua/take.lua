-- take.lua: takes a place at an agent whose open runs are capped, over all
-- trees and sidecars.
--
-- KEYS  1 the agent's open runs: a sorted set, member = run and session
--       (packed), score = when the lease ends, in microseconds
-- ARGV  1 now in microseconds, empty for the server's clock   2 life of the key in ms
--       3 the cap   4 the member   5 the lease in microseconds
--       6… sessions on the caller's path: places held by them do not count
-- Returns what counts against the cap without this member; 1 if it was added

local now
if ARGV[1] ~= '' then
	now = tonumber(ARGV[1])
else
	local t = redis.call('TIME')
	now = t[1] * 1000000 + t[2]
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now))

local count = redis.call('ZCARD', KEYS[1])
local had = redis.call('ZSCORE', KEYS[1], ARGV[4])
if had then count = count - 1 end
if #ARGV > 5 and count > 0 then
	local above = {}
	for i = 6, #ARGV do above[ARGV[i]] = true end
	for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
		if above[cmsgpack.unpack(member)[2]] and member ~= ARGV[4] then count = count - 1 end
	end
end

local added = 0
if not had and count < tonumber(ARGV[3]) then
	added = redis.call('ZADD', KEYS[1], string.format('%d', now + ARGV[5]), ARGV[4])
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {count, added}
