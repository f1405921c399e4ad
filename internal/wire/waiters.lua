-- Clients that wait: a part of batch.lua and slots.lua, in the place of a line that includes this file. Ahead of it there are id, micros(), and
-- claimText, the pattern of a claim in a queue.

-- Splits a member of a queue: the client, the token of its claim, and for how many ms it may be granted what it waits for, with an f behind
-- if it wants a fence. What is no claim is a client.
local function parse(m)
  local client, token, g = string.match(m, claimText)
  return client or m, token, g
end

-- Notes that the client of this call waits and runs: until when it is live, and for how long after that it is unheard.
local hasNoted = false
local function noteRuns()
  local at = 2 * #KEYS + 2
  local patience, far = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  if patience and far and not hasNoted then
    hasNoted = true
    redis.pcall('SET', 'redlock:waiter:' .. id, string.format('%.0f %.0f', micros() / 1000 + patience, far),
      'PX', string.format('%.0f', patience + far + const.noteLife)) -- at last it says that the client is silent
  end
end

-- Tells the claim of a member of a queue that it is near, or that it is to look whether it can have what it waits for. Returns how many have
-- heard of it.
local function tell(m, key)
  local client, token = parse(m)
  return token and redis.pcall('PUBLISH', 'redlock:wake:' .. client, '= ' .. token .. ' ' .. key) or 0
end
