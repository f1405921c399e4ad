-- What is done to locks, many in one call. KEYS are the locks' keys; ARGV[1] is
-- the calling client's id, or '' if it uses no wake-ups; then come four for each
-- key: what to do, a token, a time to live in ms, and how long, in ms, the client
-- has waited already (acquire) or '' if it does not want to be woken.
--
--   acquire  set the key unless it exists; else join the queue
--   behind   the same, but do not overtake those who queue
--   renew    give the key its full time to live again if it holds the token
--   release  delete the key if it holds the token, and wake the queue's head
--   undo     delete the key if it holds the token
--   quit     the same, and leave the queue
--   wake     wake the queue's head if the key is free
--
-- For each an answer of its own:
--    2  released, and somebody was woken
--    1  done
--    0  there is no key
--   -1  another token is there, or something that is no lock
--   below: refused to an acquisition, and the key will live for -(answer + 2) ms
-- or an error, which harms none of the others. The answer for a single key comes
-- by itself, without a list around it. Only acquire and behind make a key.
local id = ARGV[1]

-- How long a queue is kept after the last client joined: longer than any sleep
-- between two attempts, each of which joins again.
local kept = '600000'

local function queue(key) return 'redlock:queue:' .. key end

-- Clients that are gone are skipped: nobody subscribes to their channels any
-- more. (The count that PUBLISH returns includes a monitor's PSUBSCRIBE *.)
-- Whatever goes wrong here costs somebody a step of a schedule, no more.
local function wake(key, token)
  for _ = 1, 1000 do
    local head = redis.pcall('ZPOPMIN', queue(key))
    if type(head) ~= 'table' or not head[1] then
      return 1
    end
    if head[1] ~= id then
      local channel = 'redlock:wake:' .. head[1]
      local there = redis.pcall('PUBSUB', 'NUMSUB', channel)
      if type(there) ~= 'table' or there.err or tonumber(there[2]) > 0 then
        local sent = redis.pcall('PUBLISH', channel, token .. ' ' .. key)
        return type(sent) == 'number' and 2 or 1
      end
    end
  end
  return 1
end

local function refuse(key, waited)
  if waited ~= '' and id ~= '' then
    local now = redis.call('TIME')
    local ticket = now[1] * 1000000 + now[2] - waited * 1000
    redis.pcall('ZADD', queue(key), 'NX', string.format('%.0f', ticket), id)
    redis.pcall('PEXPIRE', queue(key), kept)
  end
  local left = redis.pcall('PTTL', key)
  if type(left) ~= 'number' or left < 0 then
    return -1
  end
  return -2 - left
end

local function acquire(key, token, ttl, waited)
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if type(set) == 'table' and set.err then
    return set
  elseif not set then
    return refuse(key, waited)
  end
  if id ~= '' then
    redis.pcall('ZREM', queue(key), id)
  end
  return 1
end

local function behind(key, token, ttl, waited)
  redis.pcall('ZREM', queue(key), id)
  local others = redis.pcall('ZCARD', queue(key))
  if type(others) == 'number' and others > 0 then
    return refuse(key, waited)
  end
  return acquire(key, token, ttl, waited)
end

-- Applies f to a key that holds the token.
local function owned(key, token, f)
  local held = redis.pcall('GET', key)
  if held == token then
    return f(key)
  elseif not held then
    return 0
  elseif type(held) == 'table' and string.sub(held.err, 1, 9) ~= 'WRONGTYPE' then
    return held
  end
  return -1
end

local function delete(key) return redis.pcall('DEL', key) end

local does = {
  acquire = acquire,
  behind = behind,
  renew = function(key, token, ttl)
    return owned(key, token, function() return redis.pcall('PEXPIRE', key, ttl) end)
  end,
  undo = function(key, token) return owned(key, token, delete) end,
  quit = function(key, token)
    if id ~= '' then
      redis.pcall('ZREM', queue(key), id)
    end
    return owned(key, token, delete)
  end,
  release = function(key, token)
    local answer = owned(key, token, delete)
    if answer == 1 and id ~= '' then
      return wake(key, token)
    end
    return answer
  end,
  wake = function(key, token)
    if id == '' or redis.pcall('EXISTS', key) ~= 0 then
      return 0
    end
    return wake(key, token)
  end,
}

local answers = {}
for i, key in ipairs(KEYS) do
  local a = 4 * i - 2
  answers[i] = does[ARGV[a]](key, ARGV[a + 1], ARGV[a + 2], ARGV[a + 3])
end
if #KEYS == 1 then
  return answers[1]
end
return answers
