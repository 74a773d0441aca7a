-- lapse.lua: settles what is overdue in a tree, which no call may ever look at
-- again, and has it put on the list of what is due.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; 7 "1" if the tree's place on the list of what is
--       due has been claimed: the caller will put it where the reply says.
--       Else the list may have lost it
-- Returns what reply does: always ok; then 1 if more of it is overdue

local function lapseTree(keys, argv)
	start(keys, argv)
	look({})
	if meta then
		lapse(100)
		if ARGV[7] == '1' then
			meta.listed, dirty = meta.due, true
		elseif meta.due < NEVER then
			meta.listed, dirty = NEVER, true -- so that flush has it put there
		end
	end
	return reply('ok', meta and meta.due <= now and 1 or 0)
end
