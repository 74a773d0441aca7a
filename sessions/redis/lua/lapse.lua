-- lapse.lua: settles what is overdue in a tree, which no call may ever look at again.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; 7 "1" if the tree's place on the list of what is
--       due has been claimed: the caller will put it where the reply says
-- Returns what reply does: always ok; then 1 if more of it is overdue

local function lapseTree(keys, argv)
	start(keys, argv)
	look({})
	if meta then
		lapse(100)
		if ARGV[7] == '1' then meta.listed, dirty = meta.due, true end
	end
	return reply('ok', meta and meta.due <= now and 1 or 0)
end
