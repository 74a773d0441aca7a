-- path.lua: the sessions from the root down to the one a call comes out of.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1, 2 as in tree.lua; then the fields named below
-- Returns after the six of reply the path, packed: id, agent …

local a = {
	root = ARGV[3], agent = ARGV[4], callerContext = ARGV[5], siblingOf = ARGV[6], message = ARGV[7],
	task = ARGV[8]
}
if not meta then return reply('ok', '') end

-- As admit.lua finds its caller; one that it would have to make stands below
-- the root session and holds nothing itself.
local sid = meta.main
local names = a.task ~= '' and id(field('t', a.agent, a.task)) or id(field('m', a.agent, a.message))
local r = names and run((decode(names)))
if r and not terminal(r.state) then
	sid = r.caller
elseif a.siblingOf ~= '' then
	local sibling = id(field('c', a.agent, a.siblingOf))
	local parent = sibling and session(sibling).parent or ''
	if parent ~= '' then sid = parent end
elseif a.callerContext ~= '' and a.callerContext ~= a.root then
	sid = id('x' .. a.callerContext) or sid
end
return reply('ok', session(sid).path)
