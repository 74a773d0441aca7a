-- path.lua: the sessions from the root down to the one a call comes out of.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; then the fields named below
-- Returns the path, packed: id, agent …

local function path(keys, argv)
	start(keys, argv)
	local a = {
		root = ARGV[6], agent = ARGV[7], callerContext = ARGV[8], siblingOf = ARGV[9], callerSession = ARGV[10],
		message = ARGV[11], task = ARGV[12]
	}
	look({})
	if not meta then return '' end

	-- As admit.lua finds its caller; one that it would have to make stands below
	-- the root session and holds nothing itself.
	local sid = meta.main
	local names = a.task ~= '' and id(field('t', a.agent, a.task)) or id(field('m', a.agent, a.message))
	local r = names and run((decode(names)))
	if r and not terminal(r.state) then
		sid = r.caller
	elseif a.callerSession ~= '' then
		sid = a.callerSession
	elseif a.siblingOf ~= '' then
		local sibling = id(field('c', a.agent, a.siblingOf))
		local parent = sibling and session(sibling).parent or ''
		if parent ~= '' then sid = parent end
	elseif a.callerContext ~= '' and a.callerContext ~= a.root then
		sid = id('x' .. a.callerContext) or sid
	end
	local caller = session(sid)
	return caller and caller.path or ''
end
