-- What is done to locks, many in one call. KEYS are the locks' keys; ARGV[1] is
-- the calling client's id, or '' if it uses no wake-ups; then come two for each
-- key: what to do, and a token.
--
--   acquire ttl waited [fence]  set the key, for ttl in ms, unless it exists; else join
--            the queue, as one who has waited so many ms, unless that is '-'. With a
--            fence proposed, the key is given a fence
--   behind ttl waited [fence]   the same, but do not overtake those who queue
--   heal ttl fence  set the key, unless it exists, and raise its fence
--   commit fence    raise the key's fence to this one, if the key holds the token
--   renew ttl       give the key its time to live again if it holds the token
--   release  delete the key if it holds the token, and wake the queue's head; if it does
--            not, leave the queue, where a quorum of others has let us pass
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
-- or an error, which harms none of the others. Where a fence was proposed, and to
-- commit, the answer is a list of that and of the key's fence; to commit it is -2 if
-- the fence is above the one to be committed. The answer for a single key comes by
-- itself, without a list around it. Only acquire, behind and heal make a key.
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
  if waited ~= '-' and id ~= '' then
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

-- A fence rises with every acquisition of its key, and is kept for a day after the
-- last: by then the clock, from which it is proposed in quarters of a millisecond, has
-- passed it. The number has more digits than Lua prints.
local function fence(key)
  local number = redis.pcall('GET', 'redlock:fence:' .. key)
  if type(number) == 'table' then
    return nil, number
  end
  return tonumber(number) or 0
end

local function raise(key, number)
  local set = redis.pcall('SET', 'redlock:fence:' .. key, string.format('%.0f', number), 'PX', '86400000')
  return set.err and set
end

-- Gives a key, which was just set, a fence: the proposed one, unless that is not
-- above the last, or far ahead of the clock, where it would force all later ones.
local function number(key, proposal)
  local last, err = fence(key)
  local given = 0
  if not err then
    local now = redis.call('TIME')
    local latest = (now[1] + 1) * 4000 + math.floor(now[2] / 250)
    given = math.max(last + 1, math.min(tonumber(proposal), latest))
    err = raise(key, given)
  end
  if err then
    redis.pcall('DEL', key)
    return err
  end
  return {1, given}
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

-- acquire, for one who wants a fence. Should the key hold the token already, that
-- was an acquisition, whose fence it has.
local function acquireFenced(what, key, token, ttl, waited, proposal)
  local taken = acquire(what, key, token, ttl, waited)
  if taken == 1 then
    return number(key, proposal)
  elseif type(taken) == 'table' then
    return taken
  elseif redis.pcall('GET', key) == token then
    taken = 1
  end
  local last, err = fence(key)
  return err or {taken, last}
end

local function heal(key, token, ttl, least)
  local set = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if not set or set.err then
    return set or 0
  end
  local last, err = fence(key)
  if not err and last < tonumber(least) then
    err = raise(key, tonumber(least))
  end
  if err then
    redis.pcall('DEL', key)
    return err
  end
  return 1
end

-- Only the exact number is acknowledged: else two holders could commit one.
local function commit(key, fixed)
  local last, err = fence(key)
  if not err and last < tonumber(fixed) then
    last, err = tonumber(fixed), raise(key, tonumber(fixed))
  end
  return err or {last == tonumber(fixed) and 1 or -2, last}
end

local function answer(what, key, token)
  local ttl, waited, proposal
  if what ~= 'release' and what ~= 'undo' then
    what, ttl, waited, proposal = string.match(what, '^(%a+) ?(%d*) ?([%d-]*) ?(%d*)$')
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
    redis.pcall('ZREM', 'redlock:queue:' .. key, id)
  end
  if not held then
    return what == 'commit' and {0, 0} or 0
  elseif held ~= token then
    if type(held) == 'table' and string.sub(held.err, 1, 9) ~= 'WRONGTYPE' then
      return held
    end
    return what == 'commit' and {-1, 0} or -1
  elseif what == 'commit' then
    return commit(key, ttl)
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
