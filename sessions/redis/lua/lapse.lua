-- lapse.lua: settles what is overdue in a tree, which no call may ever look at again.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1, 2 as in tree.lua
-- Returns the six of reply: always ok

if meta then lapse(100) end
return reply('ok')
