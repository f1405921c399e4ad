-- Returns the first members of a queue with their scores. Members that are longer than any client's are left
-- out: a reply with many of them could exceed what a client accepts on its connection.
--
-- KEYS[1]: the queue
-- ARGV[1]: the index of the last member to look at
-- ARGV[2]: how long a member may be, in bytes

local found = redis.call('ZRANGE', KEYS[1], 0, ARGV[1], 'WITHSCORES')
local short = {}
for i = 1, #found, 2 do
  if #found[i] <= tonumber(ARGV[2]) then
    short[#short + 1] = found[i]
    short[#short + 1] = found[i + 1]
  end
end
return short
