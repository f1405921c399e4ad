-- Readers: a part of batch.lua, which makes these functions in the first call that needs them.
--
-- While readers hold a key, it holds a marker, which is no token. The readers are the members of the sorted set redlock:readers:, each scored
-- by its own expiry, in ms of this server's clock. The marker lives as long as the longest member. The claims of readers that wait are in a
-- queue of their own, redlock:rqueue:, whose members are those of redlock:queue:. A deaf claim is granted the lock with the others, and finds by a poll that it stands.
--
-- After a writer, all readers that wait are granted the lock. After the last reader, the first writer is. A reader that comes while a writer
-- waits joins the queue of readers. So either side waits for one turn of the other. A claim that polls and finds the key free passes it on to its
-- own side, and one that is given up to the side that has waited for longer.
--
--   readers register ttl waited g [fence]  stand as a reader for ttl ms, unless a writer holds the key, or waits for it, or the key is free and
--            readers wait. Else join the queue of readers as a claim that has waited for waited ms. A ttl of 0 never stands where there is no
--            marker. A client without a subscription has a '-' behind the ms. Its claim joins no queue until it has waited for a
--            second, and one with a g of '-' never does. Such a claim stands if the key is free although others wait in queues,
--            and beside readers if it has waited for longer than the first writer. With a proposed fence, raise the key's fence
--            to it if the reader stands
--   readers again …  the same for a claim that has registered before, as a poll. Writers that are unheard do not count. If the key is free, it
--            is passed on
--   readers asks …   as again, by a claim that has votes at other masters: beside readers, it stands although a writer waits
--   readers renew ttl       stand for ttl ms from now on, if the marker stands and the reader has not expired
--   readers heal ttl fence  stand as a reader, unless a writer holds the key, and raise the key's fence
--   readers commit fence ttl  raise the key's fence to this one, and stand for ttl ms, if the reader stands. A higher fence refuses it: a writer
--            may have had the key since the vote, before a late poll
--   readers release [g how] leave, and leave the queue of readers. The last reader passes the lock on: how is that of batch.lua, free or =token
--   readers undo            leave
--   readers announce waited  by a writer that stands in no queue: if readers hold the key, ask them to leave, and keep readers out that have
--            not waited as long. One that does not wait at all says '-', and keeps them out for 50 ms at most
--   readers retract         by that writer, once it holds the lock: the announcement ends
--   readers break           for a person: end the readers that are listed, one on a line instead of the token, or all if
--            none is listed. The answer is a list: 1 if any was ended, or the key deleted, and the readers
--
-- Answers are those of batch.lua. Of an acquisition without a g, and of renew, 2 says that a writer waits. In the list of five, the
-- last number of a reader that stands is 1 if a writer waits.

-- Returns the queue of the readers that wait for a lock.
local function readersQueue(key)
  return {name = 'redlock:rqueue:' .. key, key = key, near = const.readersNear, left = 0}
end

-- Returns the time at which the longest member expires, or nil if there is none.
local function longest(readersKey)
  return tonumber(redis.call('ZREVRANGE', readersKey, 0, 0, 'WITHSCORES')[2])
end

-- Sets the marker, and lets it live until a time. Its life counts from a moment after now, so the marker lives at
-- least as long as its members.
local function mark(key, readersKey, untilThen, now)
  local left = string.format('%.0f', untilThen - now)
  redis.call('SET', key, marker, 'PX', left)
  redis.call('PEXPIRE', readersKey, left)
end

-- Lets a reader stand for ttl ms. The marker is left alone if it lives for longer.
local function stand(key, token, ttl, now)
  local readersKey = 'redlock:readers:' .. key
  redis.call('ZADD', readersKey, string.format('%.0f', now + ttl), id .. ' ' .. token)
  local top = longest(readersKey)
  if top <= now + ttl then
    mark(key, readersKey, top, now)
  end
end

-- Adds a reader, unless a writer holds the key. held is what the key holds. Reports whether it did.
local function enter(key, held, token, ttl)
  local readersKey, now = 'redlock:readers:' .. key, clock()
  if held == marker then
    redis.call('ZREMRANGEBYSCORE', readersKey, '-inf', string.format('%.0f', now))
  elseif held or not redis.call('SET', key, marker, 'NX', 'PX', ttl) then -- the key may be no string
    return false
  else
    redis.call('DEL', readersKey)
  end
  stand(key, token, ttl, now)
  return true
end

-- Returns the first member of the queue whose client runs, or nil. careful is that of firstLive() in queue.lua. Eight are looked through: whoever
-- is behind eight that are stopped becomes near when the lock is passed on.
local function firstWriter(key, careful)
  local q = queueOf(key)
  local members = redis.pcall('ZRANGE', q.name, 0, 7)
  if members.err or #members == 0 then
    return nil
  end
  local states = queueing().judge(q, members)
  for i, m in ipairs(members) do
    if states[i] == 'live' or states[i] == 'unheard' and not careful then
      return m
    end
  end
end

-- Asks the readers that hold a key to leave. As messages may be lost, later calls tell some of them again.
local function recallReaders(key, all)
  local readersKey = 'redlock:readers:' .. key
  local members = all and redis.pcall('ZRANGEBYSCORE', readersKey, string.format('%.0f', clock()), '+inf') or redis.pcall('ZRANDMEMBER', readersKey, 8)
  for _, member in ipairs(members) do
    local reader = string.match(member, '^(%S+) ')
    if reader then
      redis.pcall('PUBLISH', 'redlock:wake:' .. reader, marker .. ' ' .. key)
    end
  end
end

-- Asks the readers that hold a key to leave, on behalf of a claim that has been refused, if it is the first in the queue whose client runs.
local function recallFor(key, mine, new)
  local first = firstWriter(key)
  if not first or first == mine then
    recallReaders(key, new)
  end
end

-- Returns who comes after readers, for the message about a grant: the first writer.
local function writerText(key)
  local _, claim = parse(firstWriter(key) or '')
  return claim and '/' .. claim or ''
end

-- Has readers that wait stand: all but those whose clients are gone, which are removed, and those whose clients are silent, which are set
-- aside. If all are silent, the first is told to look. The key is free, or holds the marker. Reports whether a reader stands now. next is that
-- of the message about the grant; nil: who comes next is looked up.
local function admit(key, proposal, next)
  local q = readersQueue(key)
  local waiting = budget > 0 and redis.pcall('ZRANGE', q.name, 0, budget - 1, 'WITHSCORES') or {}
  if waiting.err or #waiting == 0 then
    return false
  end
  local all, scores = {}, {}
  for i = 1, #waiting, 2 do
    all[#all + 1], scores[#scores + 1] = waiting[i], tonumber(waiting[i + 1])
  end
  budget = budget - #all
  local states = queueing().judge(q, all)
  local leaving, over, entering, now, life, fenced = {}, {}, {}, clock(), 0, false
  for i, m in ipairs(all) do
    local client, claim, g = parse(m)
    if states[i] == 'silent' then
      over[#over + 1] = i
    else
      leaving[#leaving + 1] = m
    end
    if claim and (states[i] == 'live' or states[i] == 'unheard') then
      local ms, f = string.match(g, '^(%d+)(f?)$')
      entering[#entering + 1] = {client, claim, now + ms}
      life, fenced = math.max(life, tonumber(ms)), fenced or f == 'f'
    end
  end
  if #leaving > 0 and queueing().leaveAll(q, leaving) ~= #leaving then
    return false -- the client may not write to the queue
  elseif #entering == 0 then
    if over[1] then
      tell(all[over[1]], key)
    end
    return false
  end
  local given, err = 0, nil
  if fenced then
    given, err = fences().shared(key, proposal)
  end
  local readersKey = 'redlock:readers:' .. key
  if err or not next and not redis.call('SET', key, marker, 'NX', 'PX', life) then
    return false
  elseif not next then
    redis.call('DEL', readersKey)
  end
  granted[key] = marker
  for _, i in ipairs(over) do
    queueing().setAside(q, all[i], scores[i])
    tell(all[i], key)
  end
  local members = {}
  for _, reader in ipairs(entering) do
    members[#members + 1] = string.format('%.0f', reader[3])
    members[#members + 1] = reader[1] .. ' ' .. reader[2]
  end
  redis.call('ZADD', readersKey, unpack(members))
  mark(key, readersKey, longest(readersKey), now)
  next = next or writerText(key)
  for _, reader in ipairs(entering) do
    tellGrant('+', reader[1], reader[2], text(given) .. next, key)
  end
  return true
end

-- Grants a free key to the readers that wait for it. Reports whether it did. A holder that lets readers in ends an announcement. Otherwise it stands
-- for a client that does not queue, and no reader is granted the key. With open, the token that was released, the key is left free if others
-- wait, too, and the first reader is told so.
local function letIn(key, proposal, byHolder, open)
  if byHolder then
    if not more().readersWait(key) then
      return false
    end
    redis.pcall('DEL', 'redlock:intent:' .. key)
  elseif redis.pcall('EXISTS', 'redlock:intent:' .. key) ~= 0 then
    return false
  end
  if open and redis.pcall('EXISTS', 'redlock:queue:' .. key) == 1 then
    local first = redis.pcall('ZRANGE', 'redlock:rqueue:' .. key, 0, 0)
    if not first[1] then
      return false
    end
    redis.pcall('PUBLISH', 'redlock:wake:' .. parse(first[1]), open .. ' ' .. key)
    return true
  end
  local ok, is = pcall(admit, key, proposal)
  return ok and is
end

-- Returns when a reader that stands expires: the marker stands, and the reader has not expired. If it does not
-- stand, returns nil and the answer. held is what the key holds.
local function standing(key, token, now, held)
  if not held then
    return nil, 0
  elseif held ~= marker then
    return nil, -1
  end
  local score = tonumber(redis.call('ZSCORE', 'redlock:readers:' .. key, id .. ' ' .. token))
  return score and score > now and score, 0
end

-- Reports whether the reader of an acquisition is to stand. announced is since when a writer that stands in no queue has waited, or nil.
local function enters(what, key, held, mine, ttl, waited, announced)
  local writer = firstWriter(key, what ~= 'register')
  if announced and announced <= clock() - waited then
    return held and what == 'asks', true
  elseif not mine and writer and held then -- beside readers, age decides
    local since = scoreOf(queueOf(key), writer)
    return since and since > micros() - waited * 1000, true
  elseif not mine then
    return ttl > 0, writer or announced
  elseif held then
    return not writer or what == 'asks', writer or announced
  end
  return ttl > 0 and not writer and (what ~= 'register' or not more().readersWait(key)), writer
end

-- Executes an acquisition. Returns the number of the answer, what stands in the way, whether the claim had not been there before, and how many
-- are ahead of it. If the reader stands, the last is 1 if a writer waits, else 0.
local function vote(what, key, token, ttl, waited, g, deaf)
  local held, announced = valueOf(key), tonumber(redis.call('GET', 'redlock:intent:' .. key))
  if type(held) == 'table' then
    error(held)
  end
  local polls, now = what ~= 'register', clock()
  local till = polls and standing(key, token, now, held)
  if till then
    return 2 + till - now, '', false, (announced or firstWriter(key)) and 1 or 0
  end
  local q = readersQueue(key)
  local mine = g ~= '-' and joining(token, g, waited, deaf)
  local is, writer = false, nil
  if not held or held == marker then
    is, writer = enters(what, key, held, mine, ttl, waited, announced)
  end
  if is and enter(key, held, token, ttl > 0 and ttl or tonumber(string.match(g, '%d+'))) then
    local was = g ~= '-' and dequeue(q, token, g) or 0
    if mine and not writer and more().readersWait(key) then
      admit(key, nil, '')
    end
    return 1, '', polls and was == 0, writer and 1 or 0
  end
  local new, rank = false, 0
  if mine then
    new, rank = join(q, mine, polls, waited)
  end
  if mine and polls and not held and ttl > 0 and letIn(key) then
    held = redis.call('GET', key)
    till = standing(key, token, now, held)
    if till then
      return 2 + till - now, '', new, firstWriter(key) and 1 or 0
    end
  end
  if held and held ~= marker and (new or rank == 0) then
    more().recall(key, held)
  end
  local left = held and rank < q.near and redis.call('PTTL', key) or -1
  return left >= 0 and -2 - left or -1, held and string.sub(held, 1, const.tokenMost) or '', new, rank
end

local function acquire(what, key, token, ttl, waited, g, proposal, deaf)
  local last, err = 0, nil
  if proposal then
    last, err = fences().last(key)
  end
  if err then
    return err
  end
  local n, inTheWay, new, rank = vote(what, key, token, ttl, waited, g, deaf)
  if n > 0 and proposal then
    last, err = fences().shared(key, what == 'register' and proposal or nil) -- that of a claim that polls is as old as its wait
  end
  if err then
    return err
  elseif g ~= '-' and (proposal or n ~= 1 or new or rank > 0) then
    return {n, last, inTheWay, new and 1 or 0, rank}
  end
  n = n == 1 and rank == 1 and 2 or n
  return proposal and {n, last} or n
end

-- While the server's memory is full, it refuses a ZADD that is the first write of a script, but none behind a ZREM. So a ZREM without an
-- effect comes first: readers that hold a lock keep it.
local function prolong(key, token, ttl, now)
  redis.call('ZREM', 'redlock:readers:' .. key, '')
  stand(key, token, ttl, now)
end

local function renewal(key, token, ttl)
  local now = clock()
  local is, no = standing(key, token, now, redis.pcall('GET', key))
  if not is then
    return no
  end
  prolong(key, token, ttl, now)
  return (redis.call('EXISTS', 'redlock:intent:' .. key) == 1 or firstWriter(key)) and 2 or 1
end

local function exit(key, token, g, how)
  local now = clock()
  local score, no = standing(key, token, now, redis.pcall('GET', key))
  local readersKey = 'redlock:readers:' .. key
  local stood = redis.call('ZREM', readersKey, id .. ' ' .. token) == 1
  if g and g ~= '' then
    local q = readersQueue(key)
    dequeue(q, token, g)
    tellNear(q)
  end
  if no == -1 then
    return no
  elseif stood or redis.call('EXISTS', readersKey) == 1 then
    local top = longest(readersKey)
    if top and top > now then
      if score and score > top then
        mark(key, readersKey, top, now)
      end
      return score and 1 or no
    end
    redis.call('DEL', key, readersKey)
  elseif redis.call('EXISTS', key) == 1 then
    return no
  end
  local passed = how ~= 'free' and queuesOf(key) ~= 0 and more().pass(key, token, {named = string.match(how or '', '^=(.+)'), others = not score})
  return not score and no or passed and 2 or 1
end

-- While an announcement stands, it is renewed by each attempt of a writer.
local announced, tried = '500', '50'

-- Readers are told by the first announcement.
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
  recallReaders(key, not intent)
  return 1
end

local function breakOff(key, list)
  local held = redis.pcall('GET', key)
  if held ~= marker then
    return {held and -1 or 0}
  end
  local readersKey, now = 'redlock:readers:' .. key, clock()
  local members, ended = {}, {0}
  if list == '' then
    members = redis.call('ZRANGE', readersKey, 0, -1)
  else
    for member in string.gmatch(list, '[^\n]+') do
      members[#members + 1] = member
    end
  end
  for _, member in ipairs(members) do
    if redis.call('ZREM', readersKey, member) == 1 then
      ended[1], ended[#ended + 1] = 1, member
    end
  end
  local top = longest(readersKey)
  if not top or top <= now then
    redis.call('DEL', key, readersKey)
    ended[1] = 1
  else
    mark(key, readersKey, top, now)
  end
  return ended
end

local function commit(key, token, fixed, ttl)
  local now = clock()
  local is, no = standing(key, token, now, redis.pcall('GET', key))
  if not is then
    return {no, 0}
  end
  return fences().commit(key, fixed, function() prolong(key, token, ttl, now) end)
end

local function heal(key, token, ttl, least)
  local held = redis.pcall('GET', key)
  if not enter(key, held, token, ttl) then
    return 0
  end
  local _, err = fences().raiseTo(key, least)
  return err or 1
end

local function execute(word, key, token)
  local what, one, two, g, proposal = string.match(word, '^readers (%a+) ?([%df-]*) ?(%-?%d*%-?) ?([%df-]*) ?(%d*)$')
  if what == 'register' or what == 'again' or what == 'asks' then
    local ttl, waited, deaf = tonumber(one), string.match(two, '^(%-?%d+)(%-?)$')
    return acquire(what, key, token, ttl, tonumber(waited), g, tonumber(proposal), deaf == '-')
  elseif what == 'renew' then
    local ttl = tonumber(one)
    return renewal(key, token, ttl)
  elseif what == 'heal' then
    local ttl, least = tonumber(one), tonumber(two)
    return heal(key, token, ttl, least)
  elseif what == 'commit' then
    local fixed, ttl = tonumber(one), tonumber(two)
    return commit(key, token, fixed, ttl)
  elseif what == 'announce' then
    local waited = one
    return announce(key, waited)
  elseif what == 'retract' then
    return redis.call('DEL', 'redlock:intent:' .. key)
  elseif what == 'break' then
    local list = token
    return breakOff(key, list)
  elseif what == 'undo' then
    return exit(key, token)
  end
  local g, how = string.match(word, '^readers release ?(%w*) ?(%S*)$')
  if g then
    return exit(key, token, g, how)
  end
  return redis.error_reply('ERR unknown word')
end

-- An error about one key must not affect the others.
local function answer(word, key, token)
  local ok, result = pcall(execute, word, key, token)
  if not ok then
    return redis.error_reply(type(result) == 'table' and result.err or tostring(result))
  end
  return result
end

sharing = {answer = answer, letIn = letIn, recallFor = recallFor}
