-- Executes commands on locks, many in one call. KEYS are the keys of the locks. A key may occur more than once:
-- its commands are executed in order. ARGV[1] is the id of the calling client, or '' if the client uses no
-- wake-ups. Then follow two arguments for each key: a command, which is called its word, and a token.
--
--   acquire ttl waited [fence]  set the key, for ttl ms, unless it exists; else join the queue as a client
--            that has waited for waited ms, unless waited is '-'. With a proposed fence, give the key a fence
--   behind ttl waited [fence]   the same, but do not overtake the clients in the queue, nor the client that
--            was woken last
--   heal ttl fence  set the key, unless it exists, and raise its fence
--   commit fence    raise the key's fence to this one, if the key holds the token
--   renew ttl       set the key's time to live to ttl ms, if the key holds the token
--   release  delete the key if it holds the token, and wake the head of the queue. If it does not hold the
--            token, leave the queue: a quorum of other masters has granted this client the lock
--   undo     delete the key if it holds the token
--   quit     the same, and leave the queue. If there is no key, wake the head of the queue, since a release
--            may have woken the client that leaves
--   wake     wake the head of the queue if the key is free
--
-- Each command has its own answer:
--    2  done, and a client was woken
--    1  done
--    0  there is no key
--   -1  the key holds another token, or a value that is not a lock
--   below -1: an acquisition was refused, and the key will live for -(answer + 2) ms
-- or an error, which does not affect the other commands. With a proposed fence, and for commit, the answer is a
-- list of this number and the key's fence. For commit, -2 means that the key's fence is above the one to commit.
-- A single key's answer is returned without a list around it. If all answers of a call are 1, a single 1 stands
-- for all of them. Only acquire, behind and heal create a key.
local id = ARGV[1]

-- Wakes the head of the queue. A client whose channel has no subscriber has ended, and is skipped. (The count
-- that PUBLISH returns includes a monitor's PSUBSCRIBE *.) A failure costs one step of a client's schedule.
--
-- The woken client needs a round trip to get the lock. If no other client is in the queue, the member 'woken'
-- stands for it during that time. It sorts behind all clients, and 'behind' does not take the lock while it
-- exists. An acquisition by this script, or the next wake-up, removes it.
local function wake(key, token)
  local queue = 'redlock:queue:' .. key
  for _ = 1, 1000 do
    local head = redis.pcall('ZPOPMIN', queue)[1]
    if not head then
      return 1
    end
    if head ~= id and head ~= 'woken' then
      local channel = 'redlock:wake:' .. head
      local there = redis.pcall('PUBSUB', 'NUMSUB', channel)
      if there.err or tonumber(there[2]) > 0 then
        local sent = redis.pcall('PUBLISH', channel, token .. ' ' .. key)
        if redis.pcall('EXISTS', queue) == 0 then
          redis.pcall('ZADD', queue, '+inf', 'woken')
          redis.pcall('PEXPIRE', queue, '1000')
        end
        return type(sent) == 'number' and 2 or 1
      end
    end
  end
  return 1
end

-- Deletes a key that holds the token of the client that releases it.
local function release(what, key, token)
  local deleted = redis.pcall('DEL', key)
  if what == 'release' and id ~= '' and deleted == 1 then
    return wake(key, token)
  end
  return deleted
end

-- Keys that were released in this call while they had no queue.
local free = {}

local function isRelease(what) return what == 'release' or what == 'undo' end

-- Sets a key that a client releases and acquires again in one call, without a fence, to the client's new
-- token. This takes one command instead of a DEL and a SET. Reports whether the key was set.
local last, ttl -- the last word and its TTL; most commands of a batch have the same word
local function replace(key, word, token)
  if word ~= last then
    last, ttl = word, string.match(word, '^behind (%d+) [%d-]+$')
  end
  local set = ttl and redis.pcall('SET', key, token, 'PX', ttl)
  return type(set) == 'table' and not set.err
end

-- Releases keys that hold their tokens with few commands. If no key has a queue, there is no client to wake.
-- All other commands are left to answer(). That includes a release behind another command for its key, which
-- may set the key. It includes all releases if one of the commands fails, since the client may have no right
-- to one of the keys. Returns the answers so far, and how many there are.
local function releaseAll()
  local members, keys, answers, seen, follower = {}, {}, {}, {}, {}
  for i, key in ipairs(KEYS) do
    if not seen[key] and isRelease(ARGV[2 * i]) then
      members[#members + 1], keys[#keys + 1] = i, key
    elseif seen[key] and not follower[key] then
      follower[key] = i
    end
    seen[key] = true
  end
  local held = #keys > 0 and redis.pcall('MGET', unpack(keys)) or {} -- an error has no elements
  local ours, queues = {}, {}
  for j, i in ipairs(members) do
    if held[j] == ARGV[2 * i + 1] then
      ours[#ours + 1] = i
      if ARGV[2 * i] == 'release' and id ~= '' then
        queues[#queues + 1] = 'redlock:queue:' .. keys[j]
      end
    end
  end
  local queued, done, left, mine = #queues > 0 and redis.pcall('EXISTS', unpack(queues)) ~= 0, 0, {}, {}
  for _, i in ipairs(ours) do
    local key = KEYS[i]
    local n = follower[key]
    free[key] = not queued and id ~= '' and ARGV[2 * i] == 'release'
    if n and free[key] and replace(key, ARGV[2 * n], ARGV[2 * n + 1]) then
      answers[i], answers[n] = 1, 1
      done = done + 2
    else
      left[#left + 1], mine[#mine + 1] = i, key
    end
  end
  if #mine == 0 then
    return answers, done
  elseif type(redis.pcall('DEL', unpack(mine))) ~= 'number' then
    for _, i in ipairs(left) do
      free[KEYS[i]] = nil
    end
    return answers, done
  end
  for _, i in ipairs(left) do
    answers[i] = queued and ARGV[2 * i] == 'release' and wake(KEYS[i], ARGV[2 * i + 1]) or 1
  end
  return answers, done + #left
end

-- Returns the reply: the answers, or a single 1.
local function reply(answers)
  local i = 1
  while answers[i] == 1 do
    i = i + 1
  end
  return i > #KEYS and 1 or answers
end

-- Calls that have only releases, or acquisitions behind them, return before the functions below are made.
local answers, done = {}, 0
if #KEYS == 2 and KEYS[1] == KEYS[2] and ARGV[2] == 'release' and id ~= ''
  and redis.pcall('GET', KEYS[1]) == ARGV[3] and redis.pcall('EXISTS', 'redlock:queue:' .. KEYS[1]) == 0
  and replace(KEYS[1], ARGV[4], ARGV[5]) then
  return 1
elseif #KEYS > 1 then
  answers, done = releaseAll()
  if done == #KEYS then
    return reply(answers)
  end
elseif isRelease(ARGV[2]) and redis.pcall('GET', KEYS[1]) == ARGV[3] then
  return release(ARGV[2], KEYS[1], ARGV[3])
end

-- Answers a refused acquisition. The client joins the queue if it waits. A queue is kept for ten minutes
-- after the last client joined: longer than any sleep between two attempts, each of which joins again.
local function refuse(key, waited)
  if waited ~= '-' and id ~= '' then
    free[key] = nil
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

-- set.lua has a copy of the section up to </fences>.
-- <fences>

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
local second, day = 4000, 24 * 3600 * 4000
local function clock()
  local now = redis.call('TIME')
  return now[1] * second + math.floor(now[2] / 250)
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
  local set = redis.pcall('SET', name, string.format('%.0f', number), 'PX', life)
  return set.err and set
end

-- Raises a fence to an agreed number, unless it is as high or higher. Such a number is at most a second ahead
-- of a client's clock, and clocks differ by half a second at most. One further ahead must not spread.
local function raiseTo(key, fixed)
  local last, err = fence(key)
  if not err and last < fixed then
    local now = clock()
    if fixed > now + 2 * second then
      local ahead = string.format('%.0f', (fixed - now) / second)
      return last, redis.error_reply('ERR the fence is ' .. ahead .. ' s ahead of this server\'s clock')
    end
    last, err = fixed, raise(key, fixed, now)
  end
  return last, err
end

-- </fences>

-- Gives a key, which was just set, a fence. This is the proposed one, unless that is not above the last
-- fence, or is far ahead of the clock. A fence far ahead would raise all later ones.
local function number(key, proposal)
  local last, err = fence(key)
  local now = clock()
  local given = math.max((last or 0) + 1, math.min(tonumber(proposal), now + second))
  err = err or raise(key, given, now)
  if err then
    redis.pcall('DEL', key)
    return err
  end
  return {1, given}
end

-- Removes the caller from the queue, and reports whether others queue, or one was woken and is on its way.
local function others(queue)
  return redis.pcall('EXISTS', queue) == 1 and type(redis.pcall('ZREM', queue, id)) == 'number'
    and redis.pcall('EXISTS', queue) == 1
end

local function acquire(what, key, token, ttl, waited)
  if what == 'behind' and not free[key] and others('redlock:queue:' .. key) then
    return refuse(key, waited)
  end
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if not set then
    return refuse(key, waited)
  elseif set.err then
    return set
  end
  if id ~= '' and what == 'acquire' then
    redis.pcall('ZREM', 'redlock:queue:' .. key, id, 'woken')
  end
  return 1
end

-- Acquires a lock with a fence. If the key already holds the token, it was acquired with the fence it has.
local function acquireFenced(what, key, token, ttl, waited, proposal)
  local taken = acquire(what, key, token, ttl, waited)
  if taken == 1 then
    return number(key, proposal)
  elseif type(taken) == 'table' then
    return taken
  end
  taken = redis.pcall('GET', key) == token and 1 or taken
  local last, err = fence(key)
  return err or {taken, last}
end

local function heal(key, token, ttl, least)
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if not set or set.err then
    return set or 0
  end
  local _, err = raiseTo(key, tonumber(least))
  if err then
    redis.pcall('DEL', key)
    return err
  end
  return 1
end

-- Raises the fence. Only exactly this number is acknowledged: otherwise two holders could commit the same.
local function commit(key, fixed)
  local last, err = raiseTo(key, fixed)
  return err or {last == fixed and 1 or -2, last}
end

local word, parts -- the last word and its parts
local function split(what)
  if what ~= word then
    word, parts = what, {string.match(what, '^(%a+) ?(%d*) ?([%d-]*) ?(%d*)$')}
  end
  return unpack(parts)
end

local function answer(what, key, token)
  local ttl, waited, proposal
  if not isRelease(what) then
    what, ttl, waited, proposal = split(what)
  end
  if what == 'acquire' or what == 'behind' then
    if proposal ~= '' then
      return acquireFenced(what, key, token, ttl, waited, proposal)
    end
    return acquire(what, key, token, ttl, waited)
  elseif what == 'heal' then
    return heal(key, token, ttl, waited)
  elseif what == 'wake' then
    return id ~= '' and redis.pcall('EXISTS', key) == 0 and wake(key, token) or 0
  elseif what == 'quit' and id ~= '' then
    redis.pcall('ZREM', 'redlock:queue:' .. key, id)
  end
  local held = redis.pcall('GET', key)
  if what == 'release' and held ~= token and id ~= '' then
    redis.pcall('ZREM', 'redlock:queue:' .. key, id, 'woken')
  end
  if not held then
    if what == 'quit' and id ~= '' then
      wake(key, token) -- a release may have woken this client, which now leaves
    end
    return what == 'commit' and {0, 0} or 0
  elseif held ~= token then
    if type(held) == 'table' and string.sub(held.err, 1, 9) ~= 'WRONGTYPE' then
      return held
    end
    return what == 'commit' and {-1, 0} or -1
  elseif what == 'commit' then
    return commit(key, tonumber(ttl))
  elseif what == 'renew' then
    return redis.pcall('PEXPIRE', key, ttl)
  end
  return release(what, key, token)
end

if #KEYS == 1 then
  return answer(ARGV[2], KEYS[1], ARGV[3])
end
for i, key in ipairs(KEYS) do
  answers[i] = answers[i] or answer(ARGV[2 * i], key, ARGV[2 * i + 1])
end
return reply(answers)
