-- library.lua: the functions of the library, by the names that script.go gives
-- them. It comes last.

local function register(name, callback, flags)
	redis.register_function({function_name = LIBRARY .. '_' .. name, callback = callback, flags = flags})
end

register('admit', admit)
register('progress', progress)
register('change', change)
register('renew', renew)
register('lapse', lapseTree)
register('path', path, {'no-writes'})
register('read', read, {'no-writes'})
register('take', take)
register('leave', leave)
register('due', due)
register('claimdue', claimDue)
register('settled', settled)
register('claim', claim)
register('unclaim', unclaim)
register('forget', forget)
register('bound', bound)
