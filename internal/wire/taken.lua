-- Returns the first slots of a semaphore that are taken. Of each there are four parts: its number, when it expires in ms of this server's
-- clock, the token, and the limit of the token. Tokens that are longer than any client's are left out: see queue.lua.
--
-- KEYS[1] is redlock:slots: and the key of the semaphore, KEYS[2] redlock:until:, and KEYS[3] redlock:taken: with it: see slots.lua
-- ARGV[1]: how many slots are returned at most
-- ARGV[2]: how long a token may be, in bytes

local found = {}
local bytes = redis.call('GETRANGE', KEYS[3], 0, 8191)
for i = 1, #bytes do
  local rest = string.byte(bytes, i)
  for bit = 0, 7 do
    local weight = 2 ^ (7 - bit)
    if rest >= weight and #found < 4 * ARGV[1] then
      rest = rest - weight
      local slot = string.format('%.0f', 8 * (i - 1) + bit)
      local token = redis.call('HGET', KEYS[1], slot)
      if token and #token <= tonumber(ARGV[2]) then
        local terms = redis.call('HGET', KEYS[1], '@' .. token) or ''
        found[#found + 1] = slot
        found[#found + 1] = redis.call('ZSCORE', KEYS[2], slot) or '0'
        found[#found + 1] = token
        found[#found + 1] = string.match(terms, '^%S* %d+ (%d+) ') or '0'
      end
    end
  end
end
return found
