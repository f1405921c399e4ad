-- Clients that are silent: a part of batch.lua and slots.lua, in the place of a line that includes this file. Ahead of it is waiters.lua.

-- Returns what the note of a client says of it: live, unheard or silent; nil: there is no note. The client of this call is live.
local function liveness(client, note)
  local till, far = string.match(type(note) == 'string' and note or '', '^(%d+) (%d+)$')
  if client == id or till and till * 1000 >= micros() then
    return 'live'
  end
  return till and ((till + far) * 1000 >= micros() and 'unheard' or 'silent')
end

-- Members of a queue that were passed over are set aside: behind all others, in their order. Their next polls take them back to
-- their places. Otherwise those that are stopped would be the near ones for ever. The score of such a member is aside more. Both functions
-- return how many members they have moved.
local aside = const.setAside

local function setAside(queue, m, score)
  if not score or score >= aside then
    return 0
  end
  redis.pcall('ZADD', queue, 'XX', string.format('%.0f', score + aside), m)
  return 1
end

local function takeBack(queue, m, score)
  if not score or score < aside then
    return 0
  end
  redis.pcall('ZADD', queue, 'XX', string.format('%.0f', score - aside), m)
  return 1
end
