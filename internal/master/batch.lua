-- What is done to locks, many in one call. KEYS are the locks' keys; ARGV[1] is
-- the calling client's id, or '' if it uses no wake-ups; then come two for each
-- key: what to do, and a token.
--
--   acquire ttl [waited]  set the key, for ttl in ms, unless it exists; else join the
--            queue, as one who has waited so many ms, if that is said
--   behind ttl [waited]   the same, but do not overtake those who queue
--   renew ttl             give the key its time to live again if it holds the token
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

-- Clients that are gone are skipped: nobody subscribes to their channels any
-- more. (The count that PUBLISH returns includes a monitor's PSUBSCRIBE *.)
-- Whatever goes wrong here costs somebody a step of a schedule, no more.
local function wake(key, token)
  local queue = 'redlock:queue:' .. key
  for _ = 1, 1000 do
    local head = redis.pcall('ZPOPMIN', queue)[1]
    if not head then
      return 1
    end
    if head ~= id then
      local channel = 'redlock:wake:' .. head
      local there = redis.pcall('PUBSUB', 'NUMSUB', channel)
      if there.err or tonumber(there[2]) > 0 then
        local sent = redis.pcall('PUBLISH', channel, token .. ' ' .. key)
        return type(sent) == 'number' and 2 or 1
      end
    end
  end
  return 1
end

-- A queue is kept for ten minutes after the last client joined it: longer than
-- any sleep between two attempts, each of which joins again.
local function refuse(key, waited)
  if waited ~= '' and id ~= '' then
    local queue = 'redlock:queue:' .. key
    local now = redis.call('TIME')
    local ticket = now[1] * 1000000 + now[2] - waited * 1000
    redis.pcall('ZADD', queue, 'NX', string.format('%.0f', ticket), id)
    redis.pcall('PEXPIRE', queue, '600000')
  end
  local left = redis.pcall('PTTL', key)
  if type(left) ~= 'number' or left < 0 then
    return -1
  end
  return -2 - left
end

local function acquire(what, key, token, ttl, waited)
  if what == 'behind' then
    redis.pcall('ZREM', 'redlock:queue:' .. key, id)
    if redis.pcall('EXISTS', 'redlock:queue:' .. key) == 1 then
      return refuse(key, waited)
    end
  end
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if not set then
    return refuse(key, waited)
  elseif set.err then
    return set
  end
  if id ~= '' then
    redis.pcall('ZREM', 'redlock:queue:' .. key, id)
  end
  return 1
end

local function answer(what, key, token)
  local ttl, waited
  if what ~= 'release' and what ~= 'undo' then
    what, ttl, waited = string.match(what, '^(%a+) ?(%d*) ?(%d*)$')
  end
  if what == 'acquire' or what == 'behind' then
    return acquire(what, key, token, ttl, waited)
  elseif what == 'wake' then
    return id ~= '' and redis.pcall('EXISTS', key) == 0 and wake(key, token) or 0
  elseif what == 'quit' and id ~= '' then
    redis.pcall('ZREM', 'redlock:queue:' .. key, id)
  end
  local held = redis.pcall('GET', key)
  if not held then
    return 0
  elseif held ~= token then
    if type(held) == 'table' and string.sub(held.err, 1, 9) ~= 'WRONGTYPE' then
      return held
    end
    return -1
  elseif what == 'renew' then
    return redis.pcall('PEXPIRE', key, ttl)
  end
  local deleted = redis.pcall('DEL', key)
  if what == 'release' and id ~= '' and deleted == 1 then
    return wake(key, token)
  end
  return deleted
end

if #KEYS == 1 then
  return answer(ARGV[2], KEYS[1], ARGV[3])
end
local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = answer(ARGV[2 * i], key, ARGV[2 * i + 1])
end
return answers
