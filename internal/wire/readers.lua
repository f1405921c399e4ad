--!df flags=allow-undeclared-keys
-- Executes the commands of readers, and asks them to leave on behalf of those who wait for a lock that readers hold. The form of a
-- call, and of its answer, is that of batch.lua: KEYS are the keys of the locks, ARGV[1] is the id of the calling
-- client, and two arguments follow for each key, a word and a token.
--
-- While readers hold a key, it holds a marker, which is no token. The readers are the members of a sorted set,
-- each scored by its own expiry, in ms of this server's clock. The marker lives as long as the longest member.
--
--   read ttl waited turn [fence]  stand as a reader for ttl ms, unless a writer holds the key, or has announced
--            that it has waited for waited ms or longer. If refused, join the readers' queue, unless turn is
--            '-'. The reader needs up to turn ms to come back when it is woken. Only the first attempt of a
--            reader has waited for 0 ms. With a proposed fence, raise the key's fence to it
--            if the reader stands, and return it. A reader that was woken for a turn is let in until the turn ends
--   renew ttl       stand for ttl ms from now on, if the marker stands and the reader has not expired
--   heal ttl fence  stand as a reader, unless a writer holds the key, and raise the key's fence
--   commit fence    raise the key's fence to this one, if the reader stands
--   release  leave, or leave the readers' queue. The last reader deletes the key
--   undo     leave
--   quit     leave, and leave the readers' queue
--   announce waited  for a writer: if readers hold the key, ask them to leave, and keep readers out that have
--            not waited as long. A writer that does not wait says '-', and keeps them out for 50 ms at most
--   break    for a person: end the readers that are listed, one on a line instead of the token, or all if
--            none is listed. The answer is a list: 1 if any was ended, or the key deleted, and the readers
--
-- Answers are those of batch.lua. Of read and renew, 2 says that a writer waits. Of the releases, 2 says that
-- another client will be woken. The caller sends 'pass' of batch.lua behind release. A writer's commands are those of
-- batch.lua and set.lua. Its release lets the readers that wait have a turn.
local id = ARGV[1]
local marker = const.readersMarker

local function clock()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Returns the time at which the longest member expires, or nil if there is none.
local function longest(set)
  return tonumber(redis.call('ZREVRANGE', set, 0, 0, 'WITHSCORES')[2])
end

-- Sets the marker, and lets it live until a time. Its life counts from a moment after now, so the marker lives at
-- least as long as its members.
local function mark(key, set, untilThen, now)
  local left = string.format('%.0f', untilThen - now)
  redis.call('SET', key, marker, 'PX', left)
  redis.call('PEXPIRE', set, left)
end

-- Lets a reader stand for ttl ms. The marker is left alone if it lives for longer.
local function stand(key, token, ttl, now)
  local set = 'redlock:readers:' .. key
  redis.call('ZADD', set, string.format('%.0f', now + ttl), id .. ' ' .. token)
  local top = longest(set)
  if top <= now + ttl then
    mark(key, set, top, now)
  end
end

-- include fences.lua

-- Adds a reader, unless a writer holds the key. held is what the key holds. Reports whether it did.
local function join(key, held, token, ttl)
  local set = 'redlock:readers:' .. key
  local now
  if held == marker then
    now = clock()
    redis.call('ZREMRANGEBYSCORE', set, '-inf', string.format('%.0f', now))
  elseif held or not redis.call('SET', key, marker, 'NX', 'PX', ttl) then -- the key may be no string
    return false
  else
    now = clock()
    redis.call('DEL', set)
  end
  stand(key, token, ttl, now)
  return true
end

-- Answers a refused read vote. The readers' queue is kept for as long as that of the writers.
local function refuse(key, turn, left)
  if turn ~= '-' and id ~= '' then
    redis.call('ZADD', 'redlock:rqueue:' .. key, turn, id)
    redis.call('PEXPIRE', 'redlock:rqueue:' .. key, const.queueLife)
  end
  return type(left) == 'number' and left >= 0 and -2 - left or -1
end

-- Reports whether a writer's release has woken this client for a turn that has not ended. Then it is let in, even
-- if a writer that has waited for longer has announced itself since.
local function invited(key)
  local woken = tonumber(redis.call('ZSCORE', 'redlock:rqueue:' .. key, id))
  local turn = woken and woken < 0 and tonumber(redis.call('ZSCORE', 'redlock:readers:' .. key, 'turn'))
  return turn and turn > clock()
end

-- include recall.lua

local function read(key, token, ttl, waited, turn)
  local both = redis.call('MGET', key, 'redlock:intent:' .. key)
  local held, intent = both[1], tonumber(both[2])
  if held and held ~= marker then
    recall(key, held)
    return refuse(key, turn, redis.call('PTTL', key))
  elseif intent and intent <= clock() - waited and not (held and invited(key)) then
    return refuse(key, turn)
  elseif not join(key, held, token, ttl) then
    return refuse(key, turn, redis.call('PTTL', key))
  end
  if waited > 0 then
    redis.call('ZREM', 'redlock:rqueue:' .. key, id)
  end
  return intent and 2 or 1
end

local function readFenced(key, token, ttl, waited, turn, proposal)
  local last, err = fence(key)
  if err then
    return err
  end
  local result = read(key, token, ttl, waited, turn)
  if result > 0 and last < proposal then
    last, err = raiseTo(key, math.min(proposal, (clock() + 1000) * 4))
  end
  return err or {result, last}
end

-- Returns when a reader that stands expires: the marker stands, and the reader has not expired. If it does not
-- stand, returns nil and the answer.
local function standing(key, token, now)
  local held = redis.pcall('GET', key)
  if not held then
    return nil, 0
  elseif held ~= marker then
    return nil, -1
  end
  local score = tonumber(redis.call('ZSCORE', 'redlock:readers:' .. key, id .. ' ' .. token))
  return score and score > now and score, 0
end

-- While the server's memory is full, it refuses a ZADD that is the first write of a script, but none behind a ZREM. So a ZREM without an
-- effect comes first: readers that hold a lock keep it.
local function renew(key, token, ttl)
  local now = clock()
  local is, no = standing(key, token, now)
  if not is then
    return no
  end
  redis.call('ZREM', 'redlock:readers:' .. key, '')
  stand(key, token, ttl, now)
  return redis.call('EXISTS', 'redlock:intent:' .. key) + 1
end

local function release(what, key, token)
  local now = clock()
  local score, no = standing(key, token, now)
  local set = 'redlock:readers:' .. key
  local stood = redis.call('ZREM', set, id .. ' ' .. token) == 1
  if not stood and what == 'release' then -- a quorum of other masters has let this client in
    redis.call('ZREM', 'redlock:rqueue:' .. key, id)
  end
  if no == -1 or not stood and redis.call('EXISTS', set) == 0 then
    return no
  end
  local first = redis.call('ZRANGE', 'redlock:rqueue:' .. key, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(first) > 0 then
    redis.call('ZREM', set, 'turn') -- all readers that were woken have come
  end
  local top = longest(set)
  if not top or top <= now then
    redis.call('DEL', key, set)
    return score and redis.call('EXISTS', 'redlock:queue:' .. key) + 1 or no
  elseif score and score > top then
    mark(key, set, top, now)
  end
  return score and 1 or no
end

-- While an announcement stands, it is renewed by each attempt of a writer.
local announced, tried = '500', '50'

-- Readers are told by the first announcement. As messages may be lost, later ones tell some of them again.
local function announce(key, waited)
  if redis.pcall('GET', key) ~= marker then
    return 0
  end
  local now, life = clock(), announced
  local intent = tonumber(redis.call('GET', 'redlock:intent:' .. key))
  local since = now
  if waited ~= '-' then
    since = now - waited
  else
    life = intent and math.max(redis.call('PTTL', 'redlock:intent:' .. key), 1) or tried
  end
  redis.call('SET', 'redlock:intent:' .. key, string.format('%.0f', math.min(since, intent or since)), 'PX', life)
  local members
  if intent then
    members = redis.call('ZRANDMEMBER', 'redlock:readers:' .. key, 8)
  else
    redis.call('ZADD', 'redlock:rqueue:' .. key, '1', 'writer') -- see turn() of batch.lua
    redis.call('PEXPIRE', 'redlock:rqueue:' .. key, const.queueLife)
    members = redis.call('ZRANGEBYSCORE', 'redlock:readers:' .. key, string.format('%.0f', now), '+inf')
  end
  for _, member in ipairs(members) do
    local reader = string.match(member, '^(%S+) ')
    if reader then
      redis.call('PUBLISH', 'redlock:wake:' .. reader, marker .. ' ' .. key)
    end
  end
  return 1
end

local function breakOff(key, list)
  local held = redis.pcall('GET', key)
  if held ~= marker then
    return {held and -1 or 0}
  end
  local set, now = 'redlock:readers:' .. key, clock()
  local members, ended = {}, {0}
  if list == '' then
    members = redis.call('ZRANGE', set, 0, -1)
  else
    for member in string.gmatch(list, '[^\n]+') do
      members[#members + 1] = member
    end
  end
  for _, member in ipairs(members) do
    if redis.call('ZREM', set, member) == 1 then
      ended[1], ended[#ended + 1] = 1, member
    end
  end
  local top = longest(set)
  if not top or top <= now then
    redis.call('DEL', key, set)
    ended[1] = 1
  else
    mark(key, set, top, now)
  end
  return ended
end

local function commit(key, token, fixed)
  local is, no = standing(key, token, clock())
  if not is then
    return {no, 0}
  end
  local last, err = raiseTo(key, fixed)
  return err or {1, fixed}
end

local function heal(key, token, ttl, least)
  local held = redis.pcall('GET', key)
  if not join(key, held, token, ttl) then
    return 0
  end
  local _, err = raiseTo(key, least)
  return err or 1
end

local function answer(word, key, token)
  local what, one, two, turn, proposal = string.match(word, '^(%a+) ?([%d-]*) ?(%d*) ?([%d-]*) ?(%d*)$')
  if what == 'read' then
    local ttl, waited = tonumber(one), tonumber(two)
    return (proposal ~= '' and readFenced or read)(key, token, ttl, waited, turn, tonumber(proposal))
  elseif what == 'renew' then
    local ttl = tonumber(one)
    return renew(key, token, ttl)
  elseif what == 'heal' then
    local ttl, least = tonumber(one), tonumber(two)
    return heal(key, token, ttl, least)
  elseif what == 'commit' then
    local fixed = tonumber(one)
    return commit(key, token, fixed)
  elseif what == 'announce' then
    local waited = one
    return announce(key, waited)
  elseif what == 'break' then
    local list = token
    return breakOff(key, list)
  elseif what == 'quit' then
    redis.call('ZREM', 'redlock:rqueue:' .. key, id)
  end
  return release(what, key, token)
end

-- An error about one key must not affect the others.
local function guarded(word, key, token)
  local ok, result = pcall(answer, word, key, token)
  if not ok then
    return redis.error_reply(type(result) == 'table' and result.err or tostring(result))
  end
  return result
end

if #KEYS == 1 then
  return guarded(ARGV[2], KEYS[1], ARGV[3])
end
local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = guarded(ARGV[2 * i], key, ARGV[2 * i + 1])
end
return answers
