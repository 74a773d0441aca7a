-- path.lua: the sessions from the root down to the one a call comes out of.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1, 2 as in tree.lua; then the fields named below
-- Returns after the six of reply the path, packed: id, agent …; and "1" if the
-- same question always has this answer

local a = arguments({'root', 'agent', 'callerContext', 'siblingOf'})
if not meta then return reply('ok', '', '') end

local sid, lasting = meta.main, '1'
if a.siblingOf ~= '' then
	lasting = '' -- a context may pass to another session
	local sibling = id(field('c', a.agent, a.siblingOf))
	local s = sibling and session(sibling)
	if s and s.parent ~= '' then sid = s.parent end
elseif a.callerContext ~= '' and a.callerContext ~= a.root then
	local caller = id('x' .. a.callerContext)
	lasting = ''
	if caller then sid = caller end
end
return reply('ok', session(sid).path, lasting)
