-- The queue of a lock, of its readers, and of a semaphore: a part of batch.lua and slots.lua, in the place of a line that includes this file.
-- Ahead of it there are id, and claimText, the pattern of a claim in a queue. docs/protocol.md has the rules.
--
-- A queue that a call has opened is a table:
--   name    the key of the sorted set. Its members are claims, and their scores since when these wait, in µs
--   key     the key of the lock or semaphore, which messages name
--   near    how many claims at the front are near
--   left    how many members have left the front since claims were told that they have become near
--   front   the first members, each with its score behind it: those that are near and one more; nil: they have to be read
--   whole   the front has all members
--   last    the score of the last claim that is near, if a release of this call has passed the lock on
--   slots   it is that of a semaphore
--   careful a claim whose client is unheard is passed over: see ready

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

-- The run_id of this server's process. A grant tells it, so that its client knows whether this is the memory that it has inspected. In
-- the text that a client loads for one process, the next line has it. Otherwise it is read, as far as this client may.
local run

-- Splits a member of a queue: the client, the token of its claim, and for how many ms it may be granted what it waits for, with an f behind
-- if it wants a fence. What is no claim is a client.
local function parse(m)
  local client, token, g = string.match(m, claimText)
  return client or m, token, g
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
    age = type(left) == 'number' and text(left) or '-1'
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

-- Tells the claims that have become near, since members have left the front, but not those that have joined in the last ms. To tell a claim again does no harm.
local function tellNear(q, newly)
  if q.left > 0 then
    local front = frontOf(q)
    for i = 2 * math.max(q.near - q.left, 0) + 1, math.min(#front, 2 * q.near), 2 do
      if not newly or not joinedIn(newly, tonumber(front[i + 1])) then
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
  -- In the queue of a semaphore, a claim that is unheard may keep others waiting until more slots are free. So one without a note is silent when it
  -- has been there for as long as a note lives beyond its use.
  local function heard(q, m, note, score)
    local client, claim = parse(m)
    local till, far = string.match(type(note) == 'string' and note or '', '^(%d+) (%d+)$')
    if client == id or till and till * 1000 >= micros() then
      return 'live'
    end
    local over = till and (till + far) * 1000 < micros()
    score = score or claim and scoreOf(q, m) or nil
    if q.slots and till then
      return over and 'silent' or 'unheard'
    elseif q.slots then
      return score and micros() - score % const.setAside <= const.noteLife * 1000 and 'live' or 'silent'
    elseif joinedIn(const.joinedLately, score) then
      return 'live'
    end
    return (not over or joinedIn(const.joinedLately + const.pollsWithin, score)) and 'unheard' or 'silent'
  end

  -- Reports whether a client has ended: its channel has no subscriber.
  local function ended(client)
    local counts = redis.pcall('PUBSUB', 'NUMSUB', 'redlock:wake:' .. client)
    return not counts.err and tonumber(counts[2]) == 0
  end

  -- Sets a member that was passed over aside: behind all others, in their order, until its next poll, for which it is told that it is near.
  -- Otherwise those that are stopped would be the near ones for ever.
  local function setAside(q, m, score)
    if score and score < const.setAside then
      tell(m, q.key)
      redis.pcall('ZADD', q.name, 'XX', text(score + const.setAside), m)
      q.front = nil
      q.left = q.left + 1
    end
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

  -- Reports whether a member of a queue can be granted what it waits for, or is to be waited for. If not, it is taken out of the way: a claim whose
  -- client is gone is removed, and another one is set aside.
  --
  -- A client that is unheard may be stopped, or be far and have nothing to say. It counts as live, unless q.careful says that it is likely to
  -- be stopped: a claim polls, so somebody else has failed to use what is free, or a silent one was found. With waits, it counts as live even
  -- so: a newcomer must not overtake it, nor is it set aside while too few slots are free for it.
  --
  -- Of a deaf client nothing is known: it is live.
  local function ready(q, m, score, waits)
    if isDeaf(m) then
      return true
    end
    local client, token = parse(m)
    local state = token and heard(q, m, redis.pcall('GET', 'redlock:waiter:' .. client), score)
    local counts = state == 'live' or state == 'unheard' and (waits or not q.careful)
    if not token or ended(client) then
      leave(q, m)
      return false
    elseif not counts then
      setAside(q, m, score)
      q.careful = true
    end
    return counts
  end

  -- Returns the first member of a queue that is ready, or nil if none is left, or if no more may be looked through. If all are set aside, returns the
  -- first of these, and true. If the client may not write to the queue, returns nil and true.
  local function firstReady(q, waits)
    while budget > 0 do
      local front = frontOf(q)
      local m = front[1]
      if not m then
        return nil
      end
      budget = budget - 1
      if ready(q, m, tonumber(front[2]), waits) then
        return m
      end
      front = frontOf(q)
      if front[1] == m then
        return tonumber(front[2]) >= const.setAside and m or nil, true
      end
    end
  end

  rare = {heard = heard, ended = ended, setAside = setAside, find = find, ready = ready, firstReady = firstReady}
  return rare
end

-- Puts a claim into a queue, or takes one that polls back to its place. Returns whether it had not been there, and how many members are
-- ahead of it. If its user may not ask for that, none is: then it polls often. If a release in front of it in the call has
-- seen that three are, they are not counted. A queue is kept for ten minutes after its head polled, or after a claim joined that is one of the first
-- two, or one in 16: longer than any sleep between two polls.
local function join(q, m, polls, ms)
  local ticket = micros() - ms * 1000
  local new = false
  time = time + 1
  noteRuns()
  local score = polls and scoreOf(q, m) or nil
  if score then
    if score >= const.setAside then
      redis.pcall('ZADD', q.name, 'XX', text(score - const.setAside), m)
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
  local rank = 10 -- they are not counted
  if not (new and q.last and q.last < ticket) then
    rank = redis.pcall('ZRANK', q.name, m)
    rank = type(rank) == 'number' and rank or 0
  end
  if rank == 0 or not score and (rank == 1 or micros() % 16 == 0) then
    redis.pcall('PEXPIRE', q.name, const.queueLife)
  end
  return new, rank
end
