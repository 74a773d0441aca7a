-- take.lua: takes a place at an agent whose open runs are capped, over all
-- trees and sidecars.
--
-- KEYS  1 the agent's open runs: a sorted set, member = run and session
--       (packed), score = when the lease ends, in microseconds
--       2 there while somebody waits for a place
-- ARGV  1 now in microseconds, empty for the server's clock   2 life of the key in ms
--       3 the cap   4 the member   5 the lease in microseconds
--       6 how long the call will wait for a place, in milliseconds; 0: not
--       7… sessions on the caller's path: places held by them do not count
-- Returns what counts against the cap without this member; 1 if it was added

local function take(keys, argv)
	local t = clock(argv[1])
	redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', int(t))

	local count = redis.call('ZCARD', keys[1])
	local had = redis.call('ZSCORE', keys[1], argv[4])
	if had then count = count - 1 end
	if #argv > 6 and count > 0 then
		local above = {}
		for i = 7, #argv do above[argv[i]] = true end
		for _, member in ipairs(redis.call('ZRANGE', keys[1], 0, -1)) do
			if above[cmsgpack.unpack(member)[2]] and member ~= argv[4] then count = count - 1 end
		end
	end

	local added = 0
	if not had and count < tonumber(argv[3]) then
		added = redis.call('ZADD', keys[1], int(t + argv[5]), argv[4])
		redis.call('PEXPIRE', keys[1], argv[2])
	elseif not had and tonumber(argv[6]) > math.max(0, redis.call('PTTL', keys[2])) then
		redis.call('SET', keys[2], 1, 'PX', argv[6])
	end
	return {count, added}
end
