-- read.lua: sessions of a tree, as they are at one moment.
--
-- KEYS  the tree's (tree.lua)
-- ARGV  1–6 as in tree.lua; then
--       "page", how many from the first on are left out, how many at most, and
--               how many runs of one session: the last
--       "session", its id, how many runs
--       "field", a field that leads to a session
-- Returns nothing if it is not there; else what the next page leaves out, or 0,
-- then for each session its id, two records, result and usage or nothing, and
-- its runs: id, record …

local MOST = 10000 -- runs of a page: it ends early when it has them

-- fetch reads fields, however many.
local function fetch(fields)
	local got, n = {}, 0
	for i = 1, #fields, 1000 do
		for _, value in ipairs(call('HMGET', STATE, unpack(fields, i, math.min(i + 999, #fields)))) do
			n = n + 1
			got[n] = value
		end
	end
	return got
end

-- row is what is returned of a session, with so many of its runs: how many they
-- are is returned as well.
local function row(sid, node, state, result, usage, most)
	local s, at, found = {}, {}, {}
	decodeState(state, s)
	for n = math.max(1, s.runs - most + 1), s.runs do at[#at + 1] = 'o' .. int(n) .. ':' .. suffix(sid) end
	local rids = fetch(at)
	for i, rid in ipairs(rids) do at[i] = 'r' .. rid end
	for i, record in ipairs(fetch(at)) do found[2 * i - 1], found[2 * i] = rids[i], record end
	return {sid, node, state, result, usage, found}, #rids
end

local function readOne(sid, most)
	local of = suffix(sid)
	local got = fetch({'N' .. of, 'V' .. of, 'R' .. of, 'U' .. of})
	if sid == '' or not got[1] then return false end
	return {0, (row(sid, got[1], got[2], got[3], got[4], most))}
end

local function readBy(f)
	local value = id(f)
	if not value then return false end
	if string.sub(f, 1, 1) == 't' then value = select(2, decode(value)) end
	return readOne(value, 0)
end

local function readPage(after, limit, most)
	local last, runsRead = math.min(after + limit, meta.sessions), 0
	local at, fields = {}, {}
	for n = after + 1, last do at[#at + 1] = '#' .. int(n) end
	local sids = fetch(at)
	for i, record in ipairs(sids) do
		sids[i] = decode(record)
		local of, n = suffix(sids[i]), #fields
		fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4] = 'N' .. of, 'V' .. of, 'R' .. of, 'U' .. of
	end
	local got, page = fetch(fields), {0}
	for i, sid in ipairs(sids) do
		local n
		page[i + 1], n = row(sid, got[4 * i - 3], got[4 * i - 2], got[4 * i - 1], got[4 * i], most)
		runsRead = runsRead + n
		if runsRead >= MOST then
			last = after + i
			break
		end
	end
	if #page > 1 and last < meta.sessions then page[1] = last end
	return page
end

local function read(keys, argv)
	start(keys, argv)
	look({})
	if not meta then return false end
	if ARGV[7] == 'session' then return readOne(ARGV[8], tonumber(ARGV[9])) end
	if ARGV[7] == 'field' then return readBy(ARGV[8]) end
	return readPage(tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]))
end
