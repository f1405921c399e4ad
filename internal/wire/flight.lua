-- Sends the value of a function to the clients that wait for a lock, if the key holds a token: that of the client that has
-- called the function. The release of the lock follows.
--
-- KEYS[1]: the key
-- KEYS[2]: its queue
-- ARGV[1]: the token
-- ARGV[2]: the value
-- ARGV[3]: if there is one, the holder is not sure that it had the key here before its function began
--
-- The message goes to each claim in the queue: !, or ; with ARGV[3], the claim's token, the first 32 bytes of the holder's token, how many bytes
-- the key has, the key, and the value. At most 1024 clients are told, and 1 MiB is sent. The others get the lock in their turn.
-- Returns how many were told.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local members = redis.pcall('ZRANGE', KEYS[2], 0, 1023) -- an error has no elements
local tail = ' ' .. string.sub(ARGV[1], 1, 32) .. ' ' .. #KEYS[1] .. ' ' .. KEYS[1] .. ARGV[2]
local mark = ARGV[3] and '; ' or '! '
local told, left = 0, 1048576
for _, m in ipairs(members) do
  local client, claim = string.match(m, '^(%S+) (%S+) %d+f?$')
  if claim then
    local text = mark .. claim .. tail
    left = left - #text
    if left < 0 then
      break
    end
    redis.pcall('PUBLISH', 'redlock:wake:' .. client, text)
    told = told + 1
  end
end
return told
