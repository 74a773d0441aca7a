-- leave.lua: gives back a place at an agent whose open runs are capped, and
-- tells every sidecar if somebody waits for one.
--
-- KEYS  1 the agent's open runs (take.lua)   2 there while somebody waits
-- ARGV  1 the member   2 the channel   3 what to tell
-- Returns 1 if all were told

local function leave(keys, argv)
	if redis.call('ZREM', keys[1], argv[1]) == 0 or redis.call('EXISTS', keys[2]) == 0 then return 0 end
	redis.call('PUBLISH', argv[2], argv[3])
	return 1
end
