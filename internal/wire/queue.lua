-- The queue of a lock, of its readers, and of a semaphore: a part of batch.lua and slots.lua, in the place of a line that includes this file.
-- Ahead of it there are id, run, and claimText, the pattern of a claim in a queue. docs/protocol.md has the rules.
--
-- A queue that a call has opened is a table:
--   name    the key of the sorted set. Its members are claims, and their scores since when these wait, in µs
--   key     the key of the lock or semaphore, which messages name
--   near    how many claims at the front are near
--   left    how many members have left the front since claims were told that they have become near
--   front   the first members, each with its score behind it: those that are near and one more; nil: they have to be read
--   whole   the front has all members
--   slots   it is that of a semaphore

local function text(n) return string.format('%.0f', n) end

-- The time in µs. Each claim that joins a queue in this call adds 1 µs: so such claims stay in the order of their commands.
local time
local began -- as it was read
local function micros()
  if not time then
    local now = redis.call('TIME')
    began = now[1] * 1000000 + now[2]
    time = began
  end
  return time
end

-- Returns the time in ms. It is the same for the whole call.
local function clock()
  micros()
  return math.floor(began / 1000)
end

-- Splits a member of a queue: the client, the token of its claim, and for how many ms it may be granted what it waits for, with an f behind
-- if it wants a fence. What is no claim is a client. Of a claim in the queue of a lock whose client has no subscription, the last value is p.
local function parse(m)
  local client, token, g, deaf = string.match(m, claimText)
  return client or m, token, g, deaf
end

-- Reports whether a member of a queue is that of a claim whose client has no subscription.
local function isDeaf(m) return string.sub(m, -1) == 'p' and parse(m) ~= m end

-- Notes that the client of this call waits and runs: until when it is live, and for how long after that it is unheard.
local hasNoted = false
local function noteRuns()
  local at = 2 * #KEYS + 2
  local patience, far = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  if patience and far and not hasNoted then
    hasNoted = true
    redis.pcall('SET', 'redlock:waiter:' .. id, string.format('%.0f %.0f', micros() / 1000 + patience, far),
      'PX', text(patience + far + const.noteLife)) -- at last it says that the client is silent
  end
end

-- Tells the claim of a member of a queue that it is near, or that it is to look whether it can have what it waits for.
local function tell(m, key)
  local client, token = parse(m)
  if token then
    redis.pcall('PUBLISH', 'redlock:wake:' .. client, '= ' .. token .. ' ' .. key)
  end
end

-- Tells a claim that it was granted a key. sign begins the message, and what says what it was granted. Returns how many have heard of it.
local age -- of the record of this server's memory: for how many ms it lives
local function tellGrant(sign, client, token, what, key)
  if not age then
    local left = redis.pcall('PTTL', 'redlock:incarnation')
    age = type(left) == 'number' and left or -1
  end
  if not run then
    local info = redis.pcall('INFO', 'server')
    run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
  end
  return redis.pcall('PUBLISH', 'redlock:wake:' .. client, sign .. ' ' .. token .. ' ' .. run .. ' ' .. age .. ' ' .. what .. ' ' .. key)
end

-- Returns the score of a member, or nil.
local function scoreOf(q, m)
  local score = redis.pcall('ZSCORE', q.name, m)
  return type(score) == 'string' and tonumber(score) or nil
end

-- Reports whether a member with this score has joined its queue in the last ms. A claim that waits behind those that come later has a
-- score that is not over, and one that was set aside, too.
local function joinedIn(ms, score) return score and score <= micros() and score + ms * 1000 >= micros() end

-- Returns the front of a queue.
local function frontOf(q)
  if not q.front or not q.whole and #q.front < 2 * q.near then
    q.front = redis.pcall('ZRANGE', q.name, 0, q.near, 'WITHSCORES') -- an error has no elements
    q.whole = #q.front <= 2 * q.near
  end
  return q.front
end

-- Takes up to three members out of a queue, and returns how many it had.
local function leave(q, m, second, third)
  local n = redis.pcall('ZREM', q.name, m, second or m, third or m)
  if type(n) ~= 'number' or n == 0 then
    return 0
  end
  q.left = q.left + n
  local front, last = q.front or {}, 0
  for i = 1, #front, 2 do
    if front[i] ~= m and front[i] ~= second and front[i] ~= third then
      front[last + 1], front[last + 2] = front[i], front[i + 1]
      last = last + 2
    end
  end
  for i = #front, last + 1, -1 do
    front[i] = nil
  end
  return n
end

-- Tells the claims that have become near, since members have left the front. With sparing, those are not told whose registration is a young
-- mark of a grant, see YoungFor in constants.go: they poll soon. To tell a claim again does no harm.
local function tellNear(q, sparing)
  if q.left > 0 then
    local front = frontOf(q)
    for i = 2 * math.max(q.near - q.left, 0) + 1, math.min(#front, 2 * q.near), 2 do
      local score = sparing and tonumber(front[i + 1])
      local young = joinedIn(const.markLeast, score)
      if score and not young then
        local _, _, g = parse(front[i])
        g = g and string.match(g, '%d+')
        young = g and joinedIn(math.min(g - const.stopMost, g / 2), score)
      end
      if not young then
        tell(front[i], q.key)
      end
    end
    q.left = 0
  end
end

-- How many members of queues may still be looked through in this call, whatever its number of keys.
local budget = const.lookedThrough

-- Returns the functions that few calls need, which are made in the first call of this one.
local rare
local function queueing()
  if rare then
    return rare
  end

  -- Says whether the client of a member is live, unheard or silent. note is that of the client, and score that of the member, if it is known.
  --
  --   live     it has noted lately that it waits, or has joined the queue lately, or it makes this call
  --   unheard  it has not, but it was not near then, and so need not have; or it has no note: that has expired, or its user may not write it
  --   silent   it should have: it may be stopped
  --
  -- At the head of the queue of a semaphore, a claim that is unheard may keep others waiting until more slots are free. So there a claim without a
  -- note is silent once it has waited for longer than const.noteLife.
  local function heard(q, m, note, score)
    local client, claim = parse(m)
    local till, far = string.match(type(note) == 'string' and note or '', '^(%d+) (%d+)$')
    if client == id or till and till * 1000 >= micros() then
      return 'live'
    end
    local over = till and (till + far) * 1000 < micros()
    score = score or claim and scoreOf(q, m) or nil
    if joinedIn(const.joinedLately, score) then
      return 'live'
    elseif q.slots and till then
      return over and 'silent' or 'unheard'
    elseif q.slots then
      return score and micros() - score % const.setAside <= const.noteLife * 1000 and 'live' or 'silent'
    end
    return (not over or joinedIn(const.joinedLately + const.pollsWithin, score)) and 'unheard' or 'silent'
  end

  -- Says of each of these members of a queue what heard() says, or that its client is gone: its channel has no subscriber. Of a client without
  -- a subscription nothing is known: it counts as live.
  local function judge(q, members)
    local notes, channels, states = {}, {}, {}
    for i, m in ipairs(members) do
      local client = parse(m)
      notes[i] = 'redlock:waiter:' .. client
      channels[i] = 'redlock:wake:' .. client
    end
    notes = redis.pcall('MGET', unpack(notes)) -- an error has no elements
    local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
    for i, m in ipairs(members) do
      if isDeaf(m) then
        states[i] = 'live'
      elseif not counts.err and tonumber(counts[2 * i]) == 0 then
        states[i] = 'gone'
      else
        states[i] = heard(q, m, notes[i])
      end
    end
    return states
  end

  -- Sets a member that was passed over aside: behind all others, in their order, until its next poll. Otherwise those that are stopped would be
  -- the near ones for ever.
  local function setAside(q, m, score)
    if score and score < const.setAside then
      redis.pcall('ZADD', q.name, 'XX', text(score + const.setAside), m)
      q.front = nil
      q.left = q.left + 1
    end
  end

  local function takeBack(q, m, score)
    if score >= const.setAside then
      redis.pcall('ZADD', q.name, 'XX', text(score - const.setAside), m)
      q.front = nil
    end
  end

  -- Takes all these members out of a queue, and returns how many it had.
  local function leaveAll(q, members)
    local n = redis.pcall('ZREM', q.name, unpack(members))
    n = type(n) == 'number' and n or 0
    q.front = nil
    q.left = q.left + n
    return n
  end

  -- Returns the member of a queue whose token begins with a text, if it is one of the first 256.
  local function find(q, beginning)
    local members = budget > 0 and redis.pcall('ZRANGE', q.name, 0, 255) or {}
    budget = budget - #members
    for _, m in ipairs(members) do
      if string.find(m, ' ' .. beginning, 1, true) then
        return m
      end
    end
  end

  -- Finds the member of a queue that is next. That is the one that is chosen, if it is live, or else the first live one. A client
  -- that is unheard may be stopped, or be far and have nothing to say. For a release it counts as live, unless a silent one is ahead of it;
  -- for a poll it does not, since somebody else has failed to use the lock; for a newcomer, who would overtake it, it does.
  -- careful is nil, 'poll' or 'newcomer' for these.
  --
  -- Members whose clients are gone are removed. Returns nil if there is none that is left, or else a table: m is the member;
  -- silent says that none is live, and then m is the first of them; over are those that it overtakes.
  local function firstLive(q, chosen, careful)
    local found, at, size = {over = {}}, 0, 1
    while budget > 0 do
      local members = chosen and {chosen} or redis.pcall('ZRANGE', q.name, at, at + size - 1)
      if members.err or #members == 0 then
        found.m, found.silent = found.over[1], true
        return found.m and found or nil
      end
      local states = judge(q, members)
      local gone = {}
      for i, m in ipairs(members) do
        if states[i] == 'live' or states[i] == 'unheard' and (not careful or careful == 'newcomer') then
          found.m = m
          break
        elseif states[i] == 'gone' then
          gone[#gone + 1] = m
        elseif not chosen then
          found.over[#found.over + 1] = m
          careful = careful or 'silent'
        end
      end
      at = #found.over
      if #gone > 0 and leaveAll(q, gone) ~= #gone then
        return nil -- the client may not write to the queue
      elseif found.m then
        return found
      end
      budget = budget - #members
      size = chosen and 1 or math.min(4 * size, 64)
      chosen = nil
    end
  end

  -- Tells the claims that are overtaken that they are near, so that they poll, and sets them aside, unless all are silent.
  local function passOver(q, found)
    for _, m in ipairs(found.over) do
      if not found.silent then
        setAside(q, m, scoreOf(q, m))
      end
      tell(m, q.key)
    end
  end

  -- Reports whether no client of a queue can come: all are gone or silent.
  local function deserted(q)
    local found = firstLive(q, nil, 'newcomer')
    return found and found.silent or not found and budget > 0
  end

  rare = {heard = heard, judge = judge, setAside = setAside, takeBack = takeBack, leaveAll = leaveAll, find = find, firstLive = firstLive,
    passOver = passOver, deserted = deserted}
  return rare
end

-- Puts a claim into a queue, or takes one that polls back to its place. Returns whether it had not been there, and how many members are
-- ahead of it. If its user may not ask for that, none is: then it polls often. A queue is kept for ten minutes after its head
-- polled, or after a claim joined that is one of the first two, or one in 16: longer than any sleep between two polls.
local function join(q, m, polls, ms)
  local ticket = micros() - ms * 1000
  local new = false
  time = time + 1
  noteRuns()
  local score = polls and scoreOf(q, m) or nil
  if score then
    if score >= const.setAside then
      queueing().takeBack(q, m, score)
    end
  else
    local other = polls and (isDeaf(m) and string.sub(m, 1, -2) or m .. 'p')
    local was = other and scoreOf(q, other)
    if was then -- its subscription has begun or ended since: it keeps its place
      redis.pcall('ZREM', q.name, other)
      ticket = was % const.setAside
    end
    new = redis.pcall('ZADD', q.name, 'NX', text(ticket), m) == 1 and not was
  end
  q.front = nil
  local rank = redis.pcall('ZRANK', q.name, m)
  rank = type(rank) == 'number' and rank or 0
  if rank == 0 or not score and (rank == 1 or began % 16 == 0) then
    redis.pcall('PEXPIRE', q.name, const.queueLife)
  end
  return new, rank
end
