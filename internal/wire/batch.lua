--!df flags=allow-undeclared-keys
-- Executes commands on locks, many in one call. docs/protocol.md has the terms, the keys, the messages and the rules.
--
-- KEYS are the keys of the locks. A key may occur more than once: its commands are executed in order. ARGV[1] is the id of the calling
-- client. Then follow two arguments for each key: a command, which is called its word, and a token. At last there may be the client's patience,
-- and how much longer it may take to poll again if it is far, in ms. A client without a subscription on this server is called deaf.
--
--   register ttl waited g [fence]  set the key, for ttl ms, unless it exists or another claim is the head of the
--            queue; else join the queue as a claim that has waited for waited ms. A negative waited puts it behind
--            claims that join in that time. A client without a subscription has a '-' behind the ms. A client that does
--            not wait has a g of 0, and a waited of '-', or of '--': then it also sets a free key although others queue. With
--            a proposed fence, give the key a fence. A ttl of 0 never sets the key
--   again ttl waited g [fence]     the same for a claim that has registered before. If the key is free and
--            another claim is the head of the queue, pass the lock on to that claim. A ttl of 0 never does
--   acquire ttl - - fence  set the key, unless it exists, and give it a fence
--   heal ttl fence    set the key, unless it exists, and raise its fence
--   commit fence ttl  raise the key's fence to this one, and let the key live for ttl ms, if it holds the token.
--            commit and heal fail, and heal sets no key, if the fence is more than 2 s ahead of this server's clock
--   renew ttl [-]     set the key's time to live to ttl ms, if the key holds the token. With a '-' behind it, or if the token
--            has a ~, say whether somebody waits for the lock
--   release [g how fence]  delete the key if it holds the token, and leave the queue. If the key is free then, pass the lock on, to the
--            readers that wait if there are any. The fence is proposed for the next lease; 0 proposes none
--   undo     as release, but do not leave the queue
--   readers …  a command of readers, or one about them: see readers.lua
--
-- How a release passes the lock on is one of these:
--   -        to the head of the queue
--   open     leave the key free, so that clients that do not queue can get the lock, and tell the head so
--   free     not at all
--   =token   to the claim in the queue whose token begins with this, or else to the head; to the readers that wait if this is their marker
--   +token   the same, by the holder of a lease: readers come before, as with -
--
-- Each command has its own answer:
--    2  done, and the lock was passed on. To renew, if that was asked: done, and somebody waits for the lock
--    1  done
--    0  there is no key
--   -1  the key holds another token, a value that is not a lock, or one that lives for ever. To register and again also:
--       the key is free, and others queue
--   below -1: an acquisition was refused, and the key will live for -(answer + 2) ms
-- or an error, which does not affect the other commands. With a proposed fence, and for commit, the answer is a
-- list of this number and the key's fence. For commit, -2 means that the key's fence is above the one to commit.
-- The answer to register and again of a claim is 1 (this command has set the key), or a list of five:
--   1. a number: as above, or 2 + n: the key holds the client's token, and lives for n ms. A claim that is not near is not told how
--      long the key of another token lives
--   2. the fence, or 0
--   3. the first 256 bytes of another token that the key holds
--   4. 1 if the claim had not been in the queue, else 0
--   5. how many members of the queue are ahead of it; 10: they were not counted, and are three or more
-- If readers hold the key, any acquisition is answered by such a list, with their marker in the place of the token.
--
-- A single key's answer is returned without a list around it. If all answers of a call are 1, a single 1 stands
-- for all of them. Only register, again, acquire, heal and grants create a key.
local id = ARGV[1]

-- What a key holds while readers hold it: see readers.lua.
local marker = const.readersMarker

-- Returns the functions that concern fences, which are made in the first call of this one.
local fenced
local function fences()
  if fenced then
    return fenced
  end
  -- include fences.lua

  -- Gives the next fence to a key that this call has set. After an error the key is deleted.
  local function begin(key, proposal)
    local given, err = nextFence(key, proposal)
    if err then
      redis.pcall('DEL', key)
    end
    return given, err
  end

  local function heal(key, token, ttl, least)
    local reply = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
    if not reply or reply.err then
      return reply or 0
    end
    local _, err = raiseTo(key, tonumber(least))
    if err then
      redis.pcall('DEL', key)
      return err
    end
    return 1
  end

  -- Returns the fence that readers are given, and raises that of the key to it. It may be that of readers before. Without a proposal it is the
  -- last quarter of a second of the clock: masters that do not know of each other are likely to give the same.
  local function shared(key, proposal)
    local now = ticks()
    return raiseTo(key, math.min(proposal or now - now % (second / 4), now + second))
  end

  -- Raises the fence. Only exactly this number is acknowledged: otherwise two holders could commit the same. extend lets the lease live for longer.
  local function commit(key, fixed, extend)
    local last, err = raiseTo(key, fixed)
    if not err and last == fixed then
      extend()
    end
    return err or {last == fixed and 1 or -2, last}
  end

  fenced = {last = fence, next = nextFence, begin = begin, raiseTo = raiseTo, shared = shared, heal = heal, commit = commit}
  return fenced
end

-- What the first key holds, as this call has read or set it, and how many queues it has, if the call begins with a release. nil: that is not known.
local before, exist

-- How many members usual() has taken out of the queue, if claims were not told since, and the answers that it has given.
local left, answers = 0, {}

-- The run_id of this server's process. A grant tells it, so that its client knows whether this is the memory that it has inspected. The
-- text that a client loads for one process sets it. Otherwise it is read, as far as this client may.
local run

local claimText = '^(%S*) (%S+) (%d+f?)(p?)$'

-- Executes what contending clients ask for most often: a release, a registration, a poll, or a release and a registration of the same key.
-- Returns the reply, or nil: then the text behind this function, which has all rules, executes what is left. A server needs more time to make the functions
-- of all rules than for these calls. So this function makes none, but for fences. What it has in common with other functions stands here once more.
local function usual()
  local key, what, token = KEYS[1], ARGV[2], ARGV[3]
  local releases = what == 'undo' or string.sub(what, 1, 7) == 'release'
  if #KEYS > 2 or #KEYS == 2 and (KEYS[2] ~= key or not releases) then
    return nil
  end
  local held = redis.pcall('GET', key)
  if type(held) == 'table' then
    return nil
  end
  before = held
  local name, readers = 'redlock:queue:' .. key, 'redlock:rqueue:' .. key
  local front -- of the queue, if members have left it: see queue.lua
  local last -- the score of the last claim that is near then
  local opened -- the release has left the key open
  local micros -- the time

  if releases then
    exist = held == token and redis.pcall('EXISTS', name, readers)
    if exist == 0 and #KEYS == 1 then
      return redis.pcall('DEL', key)
    elseif exist == 0 then
      -- The token is replaced by that of the next acquisition: one command instead of a DEL and a SET.
      local ttl, proposal = string.match(ARGV[4], '^register ([1-9]%d*) [%d-]+ %d+$'), nil
      if not ttl then
        ttl, proposal = string.match(ARGV[4], '^register ([1-9]%d*) %-+ 0 (%d+)$')
      end
      local reply = ttl and redis.pcall('SET', key, ARGV[5], 'PX', ttl)
      if not reply or reply.err then
        return nil
      elseif not proposal then
        return 1
      end
      local given, err = fences().begin(key, tonumber(proposal))
      return {1, err or {1, given}}
    end

    -- The lock is passed on if no readers wait, and the claim at the head, or that which is named and one of the first four, is not silent and has a
    -- subscription. The key still holds the token that is released, and is set anew instead of deleted and set; with open, it is deleted, and the head is
    -- told so.
    --
    -- Whether the client of the claim is gone is not asked before: then the message about the grant reaches nobody. (It also reaches a monitor's
    -- PSUBSCRIBE *. Beside one, a client that is gone costs g.) If it wants a fence, that of the key was raised in vain, which does no harm.
    local wait, by, how, proposal = string.match(what, '^release ([1-9]%d*f?) ?([%+]?)(%S*) ?(%d*)$')
    local named = by == '+' and how ~= '' and ' ' .. how
    opened = by == '' and how == 'open'
    if exist ~= 1 or not (opened or named or by == '' and (how == '' or how == '-')) then
      return nil
    end
    front = redis.pcall('ZRANGE', name, 0, const.near, 'WITHSCORES') -- an error has no elements
    local at = 1
    while named and front[at] and not string.find(front[at], named, 1, true) do
      at = at + 2
    end
    local client, claim, g, deaf = string.match(front[at] or '', claimText)
    if not claim or claim == token or deaf == 'p' then
      return nil
    end
    local now, score = redis.pcall('TIME'), tonumber(front[at + 1])
    micros = now[1] * 1000000 + now[2]
    if score > micros or score + (const.joinedLately + const.pollsWithin) * 1000 < micros then -- see heard
      local note = redis.pcall('GET', 'redlock:waiter:' .. client)
      local till, far = string.match(type(note) == 'string' and note or '', '^(%d+) (%d+)$')
      if till and (till + far) * 1000 < micros then
        return nil
      end
    end
    local mine = id .. ' ' .. token .. ' ' .. wait
    if opened then
      if redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key) == 0 or redis.pcall('DEL', key) ~= 1 then
        return nil
      end
      left = redis.pcall('ZREM', name, mine, mine .. 'p')
      left = type(left) == 'number' and left or 0
      if left > 0 then
        front = redis.pcall('ZRANGE', name, 0, const.near, 'WITHSCORES')
      end
      before = false
    else
      left = redis.pcall('ZREM', name, front[at], mine, mine .. 'p')
      left = type(left) == 'number' and left or 0
      if left == 0 then
        return nil -- the client may not write to the queue
      end
      table.remove(front, at)
      table.remove(front, at)
      if left > 1 then -- the claim of the lease that is released was in the queue, too
        front = redis.pcall('ZRANGE', name, 0, const.near, 'WITHSCORES')
      end
      local given, err
      if string.sub(g, -1) == 'f' then
        given, err = fences().next(key, tonumber(proposal) ~= 0 and tonumber(proposal) or nil)
        g = string.sub(g, 1, -2)
      end
      local reply = not err and redis.pcall('SET', key, claim, 'PX', g, 'XX')
      local set = reply and not reply.err
      local message = token .. ' ' .. key
      if set then
        local age = redis.pcall('PTTL', 'redlock:incarnation')
        if not run then
          local info = redis.pcall('INFO', 'server')
          run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
        end
        local next = string.match(front[1] or '', '^%S* (%S+) %d+f?p?$')
        message = '+ ' .. claim .. ' ' .. run .. ' ' .. (type(age) == 'number' and age or -1) .. ' ' ..
          (given and string.format('%.0f', given) or '0') .. (next and '/' .. next or '') .. ' ' .. key
      end
      local heard = redis.pcall('PUBLISH', 'redlock:wake:' .. client, message)
      if heard == 0 then
        return nil -- the release is executed as if the key still held the token that is released: nobody knows of the grant
      elseif not set then
        redis.pcall('DEL', key)
      end
      before = set and claim
      left = left - (at > 2 * const.near and 1 or 0) -- it was not near
    end
    last = tonumber(front[2 * const.near])
    answers[1] = 2
  elseif held == token then
    -- See renew.
    local ttl, asks = string.match(what, '^renew (%d+) ?(%-?)$')
    local n = ttl and redis.pcall('PEXPIRE', key, ttl)
    return n == 1 and (asks ~= '' or string.find(token, '~', 1, true)) and redis.pcall('EXISTS', name, readers) ~= 0 and 2 or n
  elseif not held then
    -- The head of the queue takes a free lock.
    local ttl, g, proposal = string.match(what, '^again ([1-9]%d*) %d+ ([1-9]%d*f?) ?(%d*)$')
    local mine = id .. ' ' .. token .. ' ' .. (g or '')
    front = g and redis.pcall('ZRANGE', name, 0, const.near, 'WITHSCORES') or {} -- an error has no elements
    local reply = front[1] == mine and redis.pcall('SET', key, token, 'NX', 'PX', ttl)
    if not reply or reply.err then
      return nil
    end
    left = redis.pcall('ZREM', name, mine, mine .. 'p')
    left = type(left) == 'number' and left or 0
    table.remove(front, 1)
    table.remove(front, 1)
    if left > 1 then
      front = redis.pcall('ZRANGE', name, 0, const.near, 'WITHSCORES')
    end
    local given, err
    if proposal ~= '' then
      given, err = fences().begin(key, tonumber(proposal))
    end
    answers[1] = err or (given or left == 0) and {1, given or 0, '', left == 0 and 1 or 0, 0} or 1
  end

  if front then
    -- See tellNear.
    for i = 2 * math.max(const.near - left, 0) + 1, math.min(#front, 2 * const.near), 2 do
      if not micros then
        local now = redis.pcall('TIME')
        micros = now[1] * 1000000 + now[2]
      end
      local age = (micros - front[i + 1]) / 1000
      if age < 0 or age > const.markLeast then
        local client, claim, ms = string.match(front[i], '^(%S*) (%S+) (%d+)f?p?$')
        if claim and (age < 0 or age > math.min(ms - const.stopMost, ms / 2)) then
          redis.pcall('PUBLISH', 'redlock:wake:' .. client, '= ' .. claim .. ' ' .. key)
        end
      end
    end
    left = 0
    if #KEYS == 1 then
      return answers[1]
    end
  end

  -- The claim is put into the queue if the key holds another token, or was left open by this call, its client has a subscription, and the key is neither
  -- kept nor held by readers. See join.
  what, token, held = ARGV[2 * #KEYS], ARGV[2 * #KEYS + 1], before
  local verb, ms, g, proposal = string.match(what, '^(%a+) %d+ (-?%d+) ([1-9]%d*f?) ?(%d*)$')
  local polls, mine = verb == 'again', id .. ' ' .. token .. ' ' .. (g or '')
  if not (polls or verb == 'register') or not held and (polls or not opened or front[1] == mine) or
    held and (held == token or held == marker or string.find(held, '~', 1, true)) then
    return nil
  end
  local score = polls and tonumber(redis.pcall('ZSCORE', name, mine) or nil)
  if polls and (not score or score >= const.setAside) then
    return nil
  end
  if not micros then
    local now = redis.pcall('TIME')
    micros = now[1] * 1000000 + now[2]
  end
  local patience, far = tonumber(ARGV[2 * #KEYS + 2]), tonumber(ARGV[2 * #KEYS + 3])
  if patience and far then -- see noteRuns
    redis.pcall('SET', 'redlock:waiter:' .. id, string.format('%.0f %.0f', micros / 1000 + patience, far),
      'PX', string.format('%.0f', patience + far + const.noteLife))
  end
  local ticket = micros - ms * 1000
  local new = not score and redis.pcall('ZADD', name, 'NX', string.format('%.0f', ticket), mine) == 1
  local rank = 10
  if not (new and last and last < ticket) then
    rank = redis.pcall('ZRANK', name, mine)
    rank = type(rank) == 'number' and rank or 0
  end
  if rank == 0 or not score and (rank == 1 or micros % 16 == 0) then
    redis.pcall('PEXPIRE', name, const.queueLife)
  end
  local lives = rank < const.near and redis.pcall('PTTL', key)
  local fence, err = 0, nil
  if proposal ~= '' then
    fence, err = fences().last(key)
  end
  answers[#KEYS] = err or {type(lives) == 'number' and lives >= 0 and -2 - lives or -1, fence,
    held and string.sub(held, 1, const.tokenMost) or '', new and 1 or 0, rank}
  return #KEYS == 2 and answers or answers[1]
end

-- Here a text for one process sets run.
local done = usual()
if done then
  return done
end

-- The rest executes any call, but for the answers that there are.

local function isRelease(what) return what == 'undo' or string.sub(what, 1, 7) == 'release' end

-- Returns how many of these exist of a key: the queue, and the queue of readers. If none does, a release only deletes the key.
local function queuesOf(key) return redis.pcall('EXISTS', 'redlock:queue:' .. key, 'redlock:rqueue:' .. key) end

-- Lets a key live for ttl ms, if it holds the token. held is what the key holds. With asks, says whether somebody waits for the lock.
local function renew(key, token, held, ttl, asks)
  if held ~= token then
    return type(held) == 'table' and held or held and -1 or 0
  end
  local n = redis.pcall('PEXPIRE', key, ttl)
  return n == 1 and (asks or string.find(token, '~', 1, true)) and queuesOf(key) ~= 0 and 2 or n
end

-- Returns what a key holds: false if there is no key, ' ' if it is not a string, and so no lock, or an error.
local function valueOf(key)
  local held = redis.pcall('GET', key)
  return type(held) == 'table' and string.sub(held.err, 1, 9) == 'WRONGTYPE' and ' ' or held
end

-- Returns the reply: the answers, or a single 1.
local function reply(answers)
  local i = 1
  while answers[i] == 1 do
    i = i + 1
  end
  return i > #KEYS and 1 or answers
end

-- Keys that were released in this call while they had no queue.
local free = {}

if #KEYS > 1 and (before == nil or exist == 0) then
  -- Returns the TTL of an acquisition without a fence that sets a key.
  local function plainTTL(word) return string.match(word, '^register ([1-9]%d*) [%d-]+ %d+$') end

  -- Sets a key that a client releases and acquires again in one call to the client's new
  -- token. This takes one command instead of a DEL and a SET. Reports whether the key was set.
  local function replace(key, ttl, token)
    local reply = ttl and redis.pcall('SET', key, token, 'PX', ttl)
    return type(reply) == 'table' and not reply.err
  end

  -- Releases keys that hold their tokens with few commands, if nobody waits for one of the keys: there is no client to
  -- pass a lock on to. All other commands are left to answer(). That includes a release behind another command for its key, which
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
        queues[#queues + 1] = 'redlock:queue:' .. keys[j]
        queues[#queues + 1] = 'redlock:rqueue:' .. keys[j]
      end
    end
    if #queues > 0 and redis.pcall('EXISTS', unpack(queues)) ~= 0 then
      return answers, 0
    end
    local done, left, mine = 0, {}, {}
    local last, ttl -- the last word and its TTL; most commands of a batch have the same word
    for _, i in ipairs(ours) do
      local key = KEYS[i]
      local n = follower[key]
      free[key] = true
      if n and ARGV[2 * n] ~= last then
        last, ttl = ARGV[2 * n], plainTTL(ARGV[2 * n])
      end
      if n and replace(key, ttl, ARGV[2 * n + 1]) then
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
      answers[i] = 1
    end
    return answers, done + #left
  end

  before, exist = nil, nil
  local done
  answers, done = releaseAll()
  if done == #KEYS then
    return reply(answers)
  end
end

-- The tokens to which this call has granted keys.
local granted = {}

-- include queue.lua

-- Returns the queue of a lock, which stays open until that of another lock is opened.
local queue
local function queueOf(key)
  if not queue or queue.key ~= key then
    queue = {name = 'redlock:queue:' .. key, key = key, near = const.near, left = left, front = nil, whole = nil}
    left = 0
  end
  return queue
end

-- Reports whether an acquisition with this g is a claim.
local function claims(g) return string.find(g, '[1-9]') end

-- Returns the member of a queue of a claim of this client.
local function member(token, g) return id .. ' ' .. token .. ' ' .. g end

-- Returns the answer to an acquisition. n is the number, ofClaim says that it is that of a claim, and given is the fence if the key has just been given one.
local function acquired(key, n, ofClaim, proposal, standing, new, given, rank)
  local last, err = given or 0, nil
  if proposal ~= '' and not given then
    last, err = fences().last(key)
  end
  if err then
    return err
  elseif standing == marker or ofClaim and (n ~= 1 or new or proposal ~= '') then
    return {n, last, standing, new and 1 or 0, rank or 0}
  end
  return proposal ~= '' and {n, last} or n
end

-- Returns for how many ms a key lives; -1: for ever, or it is not known.
local function lifeOf(key)
  local left = redis.pcall('PTTL', key)
  return type(left) == 'number' and left or -1
end

-- Returns the answer to an acquisition that was refused. new and rank are what join returns.
local function refused(key, held, ofClaim, proposal, new, rank)
  local left = rank < const.near and lifeOf(key) or -1
  return acquired(key, left < 0 and -1 or -2 - left, ofClaim, proposal, held and string.sub(held, 1, const.tokenMost) or '', new, nil, rank)
end

-- Grants a lock to a member of its queue, which is taken out of the queue. The key is free. If it cannot be set, the claim is told
-- to look, with token. Returns how many have heard of it, or false: the client may not write to the queue.
local function grant(q, m, token, proposal)
  local key = q.key
  if leave(q, m) == 0 then
    return false
  end
  local client, claim, g = parse(m)
  local given, err, reply = nil, nil, nil
  if claim and string.sub(g, -1) == 'f' then
    given, err = fences().next(key, proposal)
    g = string.sub(g, 1, -2)
  end
  if claim and not err then
    reply = redis.pcall('SET', key, claim, 'PX', g, 'NX')
  end
  if not reply or reply.err then
    return redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key)
  end
  granted[key] = claim
  local _, next = parse(frontOf(q)[1] or '')
  return tellGrant('+', client, claim, (given and text(given) or '0') .. (next and '/' .. next or ''), key)
end

-- The commands are in a function of their own. To make a function, Lua looks for each local that it uses among all that other functions
-- of the same level use, one by one: that takes a fifth of the time of a call if all are of one level.
local function commands()

-- Returns the member with which a claim that has waited for ms joins a queue, or nil: it joins none yet.
local function joining(token, g, ms, deaf) return (not deaf or ms >= 1000) and member(token, g) .. (deaf and 'p' or '') or nil end

-- Takes a claim of this client out of a queue, and its member from when its client had no subscription. Returns how many it had there.
local function dequeue(q, token, g)
  local m = member(token, g)
  return leave(q, m, m .. 'p')
end

local readers

-- Sets a free key, and takes a claim of this client out of its queue. Returns the answer to the acquisition. polls says that the claim was sent
-- before: it is new if it was not in the queue any more, also if this call has put it there, which is joined.
local function take(q, token, ttl, g, proposal, polls, joined)
  local key = q.key
  local reply = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
  if not reply or reply.err then
    return reply or -1
  end
  local was = claims(g) and dequeue(q, token, g) or 0
  local given, err
  if proposal ~= '' then
    given, err = fences().begin(key, tonumber(proposal))
  end
  if err then
    return err
  end
  return acquired(key, 1, claims(g), proposal, '', polls and (joined or was == 0), given)
end

-- Returns the functions that few calls need, which are made in the first call of this one.
local others
local function more()
  if others then
    return others
  end

  -- Reports whether readers wait for a key.
  local function readersWait(key) return redis.pcall('EXISTS', 'redlock:rqueue:' .. key) == 1 end

  -- Reports whether the first reader that waits has waited for longer than the first writer.
  local function readersWaitLonger(key)
    local reader = redis.pcall('ZRANGE', 'redlock:rqueue:' .. key, 0, 0, 'WITHSCORES')[2]
    local writer = frontOf(queueOf(key))[2]
    return reader and (not writer or tonumber(reader) < tonumber(writer))
  end

  -- Passes a free key on to a claim in the queue, and reports whether it did. token is the one that a message tells by which the key is left
  -- free. by has these:
  --
  --   proposal  the fence that a release proposes
  --   open      leave the key free
  --   named     the beginning of the token that is next
  --   yields    a claim gives way
  --   polls     a claim polls
  --   others    it is not known who has left the key free: readers come first if they have waited for longer
  --
  -- If all clients are silent, the readers that wait are granted the lock. If there are none, the first claim is told to look, and the key stays
  -- free: whoever comes next can have it.
  --
  -- A head that is deaf is granted the lock only by a poll of another claim, by a claim that gives way, or while readers wait. In other cases the
  -- key stays free for it. While readers wait, these would take the key.
  local function pass(key, token, by)
    local q, rare = queueOf(key), queueing()
    local wait = readersWait(key)
    if wait and not by.open and by.others and readersWaitLonger(key) and readers().letIn(key, by.proposal) then
      return true
    end
    local found = rare.firstLive(q, by.named and rare.find(q, by.named), by.polls and 'poll')
    if wait and (not found or found.silent) and readers().letIn(key, by.proposal) then
      return true
    elseif not found then
      return false
    end
    rare.passOver(q, found)
    if found.silent or by.open or isDeaf(found.m) and not (by.polls or by.yields or wait) then
      redis.pcall('PUBLISH', 'redlock:wake:' .. parse(found.m), token .. ' ' .. key)
      return true
    end
    return grant(q, found.m, token, by.proposal) ~= false
  end

  -- include recall.lua

  others = {pass = pass, recall = recall, readersWait = readersWait}
  return others
end

-- Returns the functions that concern readers, which are made in the first call of this one.
local sharing
function readers()
  if sharing then
    return sharing
  end
  -- include readers.lua

  return sharing
end

-- Reports whether an acquisition sets a free key although head is the head of the queue. ms is for how long a claim has waited, and mine is its
-- member. overtakes says that a client that does not wait also overtakes clients that can come.
-- A deaf claim that polls need not be the head if that is deaf, too, and has not waited for more than four times as long.
local function mayTake(verb, q, head, mine, overtakes, ms, deaf)
  if not head or head == mine then
    return true
  elseif verb == 'again' and deaf and isDeaf(head) then
    local since = scoreOf(q, head)
    return since and micros() - since <= 4000 * ms
  end
  return verb == 'register' and (overtakes or queueing().deserted(q))
end

-- held is what the key holds.
local function acquire(verb, key, token, held, ttl, waited, g, proposal)
  local number, dash = string.match(waited, '^(-?%d+)(-?)$')
  local ms = claims(g) and tonumber(number) -- for how long the claim has waited, if it is one
  local deaf = ms and dash == '-'
  local mine = ms and joining(token, g, ms, deaf)
  local q, polls = queueOf(key), verb == 'again'
  local new, rank, head = false, 0, nil
  if not held and ttl ~= '0' then
    if verb ~= 'acquire' and not free[key] then
      head = frontOf(q)[1]
    end
    if mayTake(verb, q, head, mine, waited == '--', ms, deaf) then
      return take(q, token, ttl, g, proposal, polls)
    end
  end
  if held ~= token then
    if mine then
      free[key] = nil
      new, rank = join(q, mine, verb ~= 'register', ms)
    end
    if polls and not held and ttl ~= '0' and (mine or not deaf or not head or not isDeaf(head)) then
      if more().pass(key, token, {polls = true}) then
        held = redis.pcall('GET', key)
      elseif budget <= 0 then -- it may be that nobody else comes
        return take(q, token, ttl, g, proposal, true, new)
      end
    end
    if held == marker and ms then
      readers().recallFor(key, mine, new)
    end
    -- Messages get lost, so the head of the queue recalls the lock with each poll.
    if held and held ~= token and string.find(held, '~', 1, true) and (new or not mine or rank == 0) then
      more().recall(key, held)
    end
  end
  if held == token then
    return acquired(key, claims(g) and 2 + math.max(lifeOf(key), 0) or 1, claims(g), proposal, '', new)
  end
  return refused(key, held, claims(g), proposal, new, rank)
end

-- Deletes the key if it holds the token. held is what the key holds.
--
-- The readers that wait come first after a lease. After a claim that gives way, and after an attempt that is undone, they come behind the queue.
local function release(what, key, token, held)
  local verb, g, how, proposal = string.match(what, '^(%a+) ?(%w*) ?(%S*) ?(%d*)$')
  proposal = tonumber(proposal) ~= 0 and tonumber(proposal) or nil
  local by = how and string.match(how, '^[=+]')
  local named = by and string.sub(how, 2)
  local undoes, open = verb == 'undo', how == 'open'
  local ofLease = not undoes and (how == '' or how == '-' or open or by == '+')
  local n = held and -1 or 0
  if held == token then
    n = redis.pcall('DEL', key)
    granted[key] = nil
  end
  if type(n) == 'table' then
    return n
  elseif not undoes and claims(g) then
    dequeue(queueOf(key), token, g)
  end
  if n == -1 or how == 'free' or undoes and n == 0 or queuesOf(key) == 0 then
    return n
  end
  ofLease = ofLease and n == 1
  local passed = (ofLease or named == marker) and readers().letIn(key, proposal, ofLease, open and token)
    or more().pass(key, token, {open = open, named = named, proposal = proposal, yields = by == '=', others = not ofLease})
  return passed and n == 1 and 2 or n
end

-- Executes a command. held is what the key holds; nil: that is not known.
local word, parts -- the last word and its parts
local function execute(what, key, token, held)
  if held == nil then
    held = granted[key] or valueOf(key)
  end
  if isRelease(what) then
    return type(held) == 'table' and held or release(what, key, token, held)
  elseif what ~= word then
    word, parts = what, {string.match(what, '^(%a+) ?(%d*) ?([%d-]*) ?([%df-]*) ?(%d*)$')}
  end
  local verb, one, two, g, proposal = unpack(parts) -- what one and two are depends on the verb
  if not verb then
    granted[key] = nil
    return readers().answer(what, key, token)
  elseif verb == 'renew' then
    local ttl, asks = one, two == '-'
    return renew(key, token, held, ttl, asks)
  elseif verb == 'heal' then
    local ttl, least = one, two
    return fences().heal(key, token, ttl, least)
  elseif type(held) == 'table' then
    return held
  elseif verb == 'register' or verb == 'again' or verb == 'acquire' then
    local ttl, waited = one, two
    return acquire(verb, key, token, held, ttl, waited, g, proposal)
  elseif verb ~= 'commit' then
    return redis.error_reply('ERR unknown word')
  elseif held ~= token then
    return {held and -1 or 0, 0}
  end
  local fixed, ttl = tonumber(one), two
  return fences().commit(key, fixed, function() redis.pcall('PEXPIRE', key, ttl) end)
end

local function answer(i)
  local result = execute(ARGV[2 * i], KEYS[i], ARGV[2 * i + 1], before)
  before = nil
  if queue then
    tellNear(queue)
  end
  return result
end

if #KEYS == 1 then
  return answer(1)
end
for i = 1, #KEYS do
  answers[i] = answers[i] or answer(i)
end
return reply(answers)
end

return commands()
