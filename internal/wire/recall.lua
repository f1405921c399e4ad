-- Recalls: a part of batch.lua, readers.lua and set.lua, in the place of a line that includes this file.

-- Recalls a lock that its holder may keep while nobody else wants it: see message.go. held is what the key holds. The token of
-- such a lease has a ~ and the id of its client behind the random part.
local function recall(key, held)
  local keeper = type(held) == 'string' and #held <= const.tokenMost and string.match(held, '^[^~@]+~(%S+)$')
  if keeper then
    redis.pcall('PUBLISH', 'redlock:wake:' .. keeper, '? ' .. held .. ' ' .. key)
  end
end
