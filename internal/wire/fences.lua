-- Fences: a part of batch.lua, readers.lua, set.lua and slots.lua, in the place of a line that includes this file.

-- Returns the fence of a key, or an error. It is kept for a day after the last acquisition. By then the clock
-- has passed it: fences follow the clock, in quarters of a ms. It has more digits than Lua prints.
local function fence(key)
  local number = redis.pcall('GET', 'redlock:fence:' .. key)
  if type(number) == 'table' then
    return nil, number
  elseif not number then
    return 0
  elseif #number > 15 or not string.match(number, '^%d+$') then
    return nil, redis.error_reply('ERR what is kept as the fence of this name is not a number')
  end
  return tonumber(number)
end

-- The current time as a fence, and the length of a second and of a day in fences.
local second, day = const.ticksASecond, 24 * 3600 * const.ticksASecond
local function ticks()
  local now = redis.call('TIME')
  return now[1] * second + math.floor(now[2] / const.tickMicros)
end

-- Sets a fence, which is kept until a day after its time. A fence so far ahead of the clock that no client
-- can use it keeps the expiry of the one before it. Otherwise each attempt would extend its life.
local function raise(key, number, now)
  local name, life = 'redlock:fence:' .. key, '86400000'
  if number > now + 4 * day then
    local left = redis.pcall('PTTL', name)
    if type(left) == 'number' and left > 0 then
      life = string.format('%.0f', left)
    end
  elseif number > now + 2 * second then
    life = string.format('%.0f', (number - now + day) / 4)
  end
  local reply = redis.pcall('SET', name, string.format('%.0f', number), 'PX', life)
  return reply.err and reply
end

-- Gives a key a fence, and returns it. This is the proposed one, unless that is not above the last fence, or is far ahead
-- of the clock. A fence far ahead would raise all later ones. Without a proposal it is the clock.
local function nextFence(key, proposal)
  local last, err = fence(key)
  local now = ticks()
  local given = math.max((last or 0) + 1, math.min(proposal or now, now + second))
  return given, err or raise(key, given, now)
end

-- Raises a fence to an agreed number, unless it is as high or higher. Such a number is at most a second ahead
-- of a client's clock, and clocks differ by half a second at most. One further ahead must not spread.
local function raiseTo(key, fixed)
  local last, err = fence(key)
  if not err and last < fixed then
    local now = ticks()
    if fixed > now + 2 * second then
      local ahead = string.format('%.0f', (fixed - now) / second)
      return last, redis.error_reply('ERR the fence is ' .. ahead .. ' s ahead of this server\'s clock')
    end
    last, err = fixed, raise(key, fixed, now)
  end
  return last, err
end
