--!df flags=allow-undeclared-keys
-- Executes commands on locks, many in one call. KEYS are the keys of the locks. A key may occur more than once:
-- its commands are executed in order. ARGV[1] is the id of the calling client. Then follow two arguments for each key: a command, which
-- is called its word, and a token. At last there may be two more, in ms: the client's patience, which is how long it takes at most to poll
-- again if it is near, and how much longer it may take if it is not, or 0.
--
-- A claim is an acquisition that waits. Its member of the queue is the client's id, its token and its g: for how many ms the lock may be granted
-- to it, with an f behind if it wants a fence. Passing the lock on to a claim means to set the key to its token, and to publish that: this is a
-- grant. A client without a subscription on this server cannot be told of a grant: it is deaf. When it has waited for a second, its claim joins the
-- queue, too, with a p behind its g. If it is the head, a release leaves the key free: the first deaf claim that polls takes it, unless the head
-- has waited for more than four times as long. A poll of any other claim that may join the queue grants the lock to the head, which finds by
-- its own poll that it has the lock. So a head whose client has ended leaves the queue.
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
-- If readers hold the key, any acquisition is answered by such a list, with their marker in the place of the token. The first claim of the
-- queue asks them to leave.
--
-- The first three claims of a queue are near: they poll often, and others seldom. Whatever takes members out of the first three
-- tells the claims that become near: the message is =, the token, and the key. To tell a claim
-- again does no harm, so nothing is kept of who was told. A release that passes the lock on does not tell a claim that has joined the
-- queue in the last 150 ms: where turns are fast, it has the lock before it needs to know, and else it polls soon.
--
-- A single key's answer is returned without a list around it. If all answers of a call are 1, a single 1 stands
-- for all of them. Only register, again, acquire, heal and grants create a key.
local id = ARGV[1]

-- What a key holds while readers hold it: see readers.lua.
local marker = const.readersMarker

-- Keys that were released in this call while they had no queue.
local free = {}

local function isRelease(what) return what == 'undo' or string.sub(what, 1, 7) == 'release' end

-- Returns the TTL of an acquisition without a fence that sets a key.
local function plainTTL(word) return string.match(word, '^register ([1-9]%d*) [%d-]+ %d+$') end

-- Sets a key that a client releases and acquires again in one call, without a fence, to the client's new
-- token. This takes one command instead of a DEL and a SET. Reports whether the key was set.
local function replace(key, ttl, token)
  local reply = ttl and redis.pcall('SET', key, token, 'PX', ttl)
  return type(reply) == 'table' and not reply.err
end

-- Returns how many of these exist of a key: the queue, the queue of readers, and an announcement. If none does, a release only deletes
-- the key.
local function queuesOf(key) return redis.pcall('EXISTS', 'redlock:queue:' .. key, 'redlock:rqueue:' .. key, 'redlock:intent:' .. key) end

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

-- The usual calls are short, and making a function takes about as long as a command. So calls that need few functions return before
-- those below are made, and functions that few calls need are made when they are needed: see fences and more.

-- A release, and a release with the next acquisition of its key. What they have read is not read again: what the key held, and how
-- many of its queues exist. nil: that is not known.
local answers, done = {}, 0
local before, exist
local pair = #KEYS == 2 and KEYS[1] == KEYS[2]
if (#KEYS == 1 or pair) and isRelease(ARGV[2]) then
  before = valueOf(KEYS[1])
  exist = before == ARGV[3] and queuesOf(KEYS[1])
  if exist == 0 and not pair then
    return redis.pcall('DEL', KEYS[1])
  elseif exist == 0 and replace(KEYS[1], plainTTL(ARGV[4]), ARGV[5]) then
    return 1
  end
end

if #KEYS > 1 and (before == nil or exist == 0) then
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
        queues[#queues + 1] = 'redlock:intent:' .. keys[j]
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
  answers, done = releaseAll()
  if done == #KEYS then
    return reply(answers)
  end
end

-- Lets a key live for ttl ms, if it holds the token. held is what the key holds. With asks, says whether somebody waits for the lock.
local function renew(key, token, held, ttl, asks)
  if held ~= token then
    return type(held) == 'table' and held or held and -1 or 0
  end
  local n = redis.pcall('PEXPIRE', key, ttl)
  return n == 1 and (asks or string.find(token, '~', 1, true)) and queuesOf(key) ~= 0 and 2 or n
end

if #KEYS == 1 then
  local ttl, asks = string.match(ARGV[2], '^renew (%d+) ?(%-?)$')
  if ttl then
    return renew(KEYS[1], ARGV[3], valueOf(KEYS[1]), ttl, asks == '-')
  end
end

-- Reports whether an acquisition with this g is a claim.
local function claims(g) return string.find(g, '[1-9]') end

-- Returns the member of a queue of a claim of this client.
local function member(token, g) return id .. ' ' .. token .. ' ' .. g end

-- Returns the member with which a claim that has waited for ms joins a queue, or nil: it joins none yet.
local function joining(token, g, ms, deaf)
  return ms and id ~= '' and (not deaf or ms >= 1000) and member(token, g) .. (deaf and 'p' or '') or nil
end

-- The run_id of this server's process, or nil. A grant tells it, so that its client knows whether this is the memory that it has
-- inspected. In the text that a client loads for one process, the next line has it. Otherwise it is read: see runID.
local run

-- What this call knows of keys: the tokens to which it has granted them, and which it has left open for the head of the queue. A key
-- that was left open may be set by the next command, so only calls of two commands leave keys open in this way: see handOver.
local granted, opened = {}, {}

-- The time in µs. The score of a claim in a queue is such a time: since when it waits.
local time -- as it was read first in this call, and 1 µs more for each client that has joined a queue since
local began -- as it was read
local function micros()
  if not time then
    local now = redis.call('TIME')
    began = now[1] * 1000000 + now[2]
    time = began
  end
  return time
end

-- A claim that has joined its queue so lately, in ms, is live without a note, and after that unheard for as long as it takes at
-- most until it is sent again. So a client that registers claims again and again need not note that each time.
-- One that has joined newly, and becomes near when a lock is passed on, need not be told: it polls soon.
local lately, again, newly = 500, const.pollsWithin, const.joinedNewly

-- The score of a member of a queue, or nil.
local function scoreOf(queue, m)
  local score = redis.pcall('ZSCORE', queue, m)
  return type(score) == 'string' and tonumber(score) or nil
end

-- Reports whether a member with this score has joined its queue in the last ms. A claim that waits behind those that come later has a
-- score that is not over, and one that was set aside, too.
local function joinedIn(ms, score) return score and score <= micros() and score + ms * 1000 >= micros() end

-- How many claims at the front of a queue are near.
local near = const.near

local claimText = '^(%S+) (%S+) (%d+f?)p?$'

-- include waiters.lua

-- Reports whether a member of a queue is that of a claim whose client has no subscription.
local function isDeaf(m) return string.sub(m, -1) == 'p' and parse(m) ~= m end

-- Returns the other member that the claim of a member may have in the queue: one is from when its client had a subscription, and one from when
-- it had none.
local function otherOf(m) return isDeaf(m) and string.sub(m, 1, -2) or m .. 'p' end

-- Tells a client that it was granted a key, and who comes next, as a text behind a slash. Of a lock, that is the claim at the head of the queue,
-- whose member is head: where masters differ in that, the release of the client names one of them. Returns how many have heard of it.
local age -- of the record of this server's memory: for how many ms it lives
local function tellGrant(key, client, token, given, head, next)
  if head then
    local _, claim = parse(head)
    next = claim and '/' .. claim
  end
  age = age or redis.pcall('PTTL', 'redlock:incarnation')
  return redis.pcall('PUBLISH', 'redlock:wake:' .. client, string.format('+ %s %s %.0f %.0f%s %s', token, run or '-',
    type(age) == 'number' and age or -1, given, next or '', key))
end

-- How many members of queues may still be looked through in this call, whatever its number of keys.
local budget = const.lookedThrough

-- Returns the functions that concern fences, which are made in the first call of this one.
local fenced
local function fences()
  if fenced then
    return fenced
  end
  -- include fences.lua

  -- Gives a key a fence, and returns it. This is the proposed one, unless that is not above the last fence, or is far ahead
  -- of the clock. A fence far ahead would raise all later ones. Without a proposal it is the clock.
  local function nextFence(key, proposal)
    local last, err = fence(key)
    local now = ticks()
    local given = math.max((last or 0) + 1, math.min(proposal or now, now + second))
    return given, err or raise(key, given, now)
  end

  -- Gives a key, which was just set, a fence, and returns it. After an error the key is deleted.
  local function number(key, proposal)
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

  -- Raises the fence. Only exactly this number is acknowledged: otherwise two holders could commit the same.
  local function commit(key, fixed, ttl)
    local last, err = raiseTo(key, fixed)
    if not err and last == fixed then
      redis.pcall('PEXPIRE', key, ttl)
    end
    return err or {last == fixed and 1 or -2, last}
  end

  fenced = {last = fence, next = nextFence, raiseTo = raiseTo, shared = shared, number = number, heal = heal, commit = commit}
  return fenced
end

-- Returns the answer to an acquisition. n is the number, and given the fence if the key has just been given one.
local function acquired(key, n, g, proposal, standing, new, given, rank)
  local last, err = given or 0, nil
  if proposal ~= '' and not given then
    last, err = fences().last(key)
  end
  if err then
    return err
  elseif standing == marker or claims(g) and (n ~= 1 or new or proposal ~= '') then
    return {n, last, standing, new and 1 or 0, rank or 0}
  end
  return proposal ~= '' and {n, last} or n
end

-- Takes a claim of this client out of a queue. Returns how many members it had there.
local function dequeue(key, token, g, rqueue)
  local m = member(token, g)
  local n = redis.pcall('ZREM', rqueue or 'redlock:queue:' .. key, m, otherOf(m))
  return type(n) == 'number' and n or 0
end

-- Returns the functions that few calls need, which are made in the first call of this one.
local others, readers, join
local function more()
  if others then
    return others
  end

  -- include silence.lua

  -- Reports whether readers wait for a key.
  local function readersWait(key) return redis.pcall('EXISTS', 'redlock:rqueue:' .. key) == 1 end

  -- Returns the run_id, or nil if this client may not read it.
  local function runID()
    if not run then
      local info = redis.pcall('INFO', 'server')
      run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or nil
    end
    return run
  end

  -- Tells the clients that have become near, since so many members have left the front of the queue.
  local function tellNear(key, left, queue, most)
    if left > 0 then
      local last = most or near
      for _, m in ipairs(redis.pcall('ZRANGE', queue or 'redlock:queue:' .. key, math.max(last - left, 0), last - 1)) do
        tell(m, key)
      end
    end
  end

  -- Says whether the client of a member of a queue is live, unheard or silent. note is that of the client, and score that of the member, if
  -- it is known.
  local function heard(queue, m, note, score)
    local client, claim = parse(m)
    local is = liveness(client, note)
    if is == 'live' then
      return is
    end
    score = score or claim and scoreOf(queue, m) or nil
    if joinedIn(lately, score) then
      return 'live'
    end
    return (is ~= 'silent' or joinedIn(lately + again, score)) and 'unheard' or 'silent'
  end

  -- Says of each of these members of a queue whether its client is gone, silent, unheard or live.
  --
  --   gone     its channel has no subscriber
  --   live     it has noted lately that it waits, or has joined the queue lately, or it makes this call, or it has no subscription: nothing is
  --            known of it
  --   unheard  it has not, but it was not near then, and so need not have; or it has no note: that has expired, or its user may not write it
  --   silent   it should have: it may be stopped
  local function judge(queue, members)
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
        states[i] = heard(queue, m, notes[i])
      end
    end
    return states
  end

  -- Returns the member of a queue whose token begins with a text, if it is one of the first 256.
  local function find(queue, text)
    local members = budget > 0 and redis.pcall('ZRANGE', queue, 0, 255) or {}
    budget = budget - #members
    for _, m in ipairs(members) do
      if string.find(m, ' ' .. text, 1, true) then
        return m
      end
    end
  end

  -- Grants a free key to a claim of the queue. Reports whether it was granted. If not, the key is still free.
  local function grant(key, client, token, g, proposal)
    local ms, fenced = string.match(g, '^(%d+)(f?)$')
    runID()
    local reply = redis.pcall('SET', key, token, 'NX', 'PX', ms)
    if not reply or reply.err then
      return false
    end
    local given, err = 0, nil
    if fenced == 'f' then
      given, err = fences().number(key, proposal)
    end
    if err then
      return false
    end
    granted[key] = token
    local next = redis.pcall('ZRANGE', 'redlock:queue:' .. key, 0, 0)
    tellGrant(key, client, token, given, next[1])
    return true
  end

  -- Reports whether the head of a queue has waited for longer than that of another one.
  local function waitedLonger(queue, other)
    local one, two = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES'), redis.pcall('ZRANGE', other, 0, 0, 'WITHSCORES')
    return one[2] and (not two[2] or tonumber(one[2]) < tonumber(two[2]))
  end

  -- Finds the member of a queue that the lock is to be passed on to. That is the one that is chosen, if it is live, or else the
  -- first live one. A client that is unheard may be stopped, or be far and have nothing to say. For a release it counts as live,
  -- unless a silent one is ahead of it; for a poll it does not, since somebody else has failed to use the lock; for a newcomer,
  -- who would overtake it, it does. careful is nil, 'poll' or 'newcomer' for these.
  --
  -- Members whose clients are gone are removed. Returns nil if there is none that is left, or else a table: m is the member;
  -- silent says that none is live, and then m is the first of them; over are those that it overtakes. left is how many were removed: the caller
  -- tells those that have become near.
  local function firstLive(key, chosen, careful)
    local queue, at, size, left = 'redlock:queue:' .. key, 0, 1, 0
    local found = {over = {}}
    while budget > 0 and not found.m do
      local members = chosen and {chosen} or redis.pcall('ZRANGE', queue, at, at + size - 1)
      if members.err or #members == 0 then
        found.m = found.over[1]
        found.silent = true
        break
      end
      local states = judge(queue, members)
      local gone = {}
      for i, m in ipairs(members) do
        if states[i] == 'live' or states[i] == 'unheard' and (not careful or careful == 'newcomer') then
          found.m = m
          break
        elseif states[i] == 'gone' then
          gone[#gone + 1] = m
        elseif not chosen then
          found.over[#found.over + 1] = m
          at = at + 1
          careful = careful or 'silent'
        end
      end
      if #gone > 0 and redis.pcall('ZREM', queue, unpack(gone)) ~= #gone then
        return nil -- the client may not write to the queue
      end
      left = left + #gone
      if not found.m then
        budget = budget - #members
        size = chosen and 1 or math.min(4 * size, 64)
        chosen = nil
      end
    end
    found.left = left
    return found.m and found or nil
  end

  -- Returns the head of a queue, and the member that becomes near when the head leaves; '': there is none.
  local function headOf(key)
    local first = redis.pcall('ZRANGE', 'redlock:queue:' .. key, 0, near)
    return first[1], first[near + 1] or ''
  end

  -- Passes a free key on to a claim in the queue, and reports whether it did. token is the one that a message tells by which the key is left
  -- free. how, named and proposal are those of a release: named is the token after = or +.
  --
  -- If all clients are silent, the readers that wait are granted the lock. If there are none, the first claim is told to look, and the key stays
  -- free: whoever comes next can have it. Claims that are passed over are told that they are near, and so poll.
  --
  -- To a head that is deaf, the lock is granted only by a poll of another claim, by a claim that gives way, and while readers wait, who would
  -- take a key that is free.
  --
  -- Readers come first if others is true and they have waited for longer: then it is not known who has left the key free.
  local function pass(key, token, how, named, proposal, careful, others)
    local queue = 'redlock:queue:' .. key
    local wait = readersWait(key)
    if wait and how ~= 'open' and others and waitedLonger('redlock:rqueue:' .. key, queue) and readers().letIn(key, proposal) then
      return true
    end
    local found = firstLive(key, named and find(queue, named), careful)
    if (not found or found.silent) and wait and readers().letIn(key, proposal) then
      tellNear(key, found and found.left or 0)
      return true
    elseif not found then
      return false
    end
    local head, left = found.m, found.left
    local client, claim, g = parse(head)
    for _, m in ipairs(found.over) do
      if not found.silent then
        left = left + setAside(queue, m, scoreOf(queue, m))
      end
      tell(m, key)
    end
    local grants = careful == 'poll' or wait or string.sub(how or '', 1, 1) == '='
    local stays = found.silent or how == 'open' or not grants and isDeaf(head)
    if not stays and redis.pcall('ZREM', queue, head) ~= 1 then
      tellNear(key, left)
      return false -- the client may not write to the queue
    end
    tellNear(key, left + (stays and 0 or 1))
    if stays or not claim or not grant(key, client, claim, g, proposal) then
      redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key)
    end
    return true
  end

  -- Sets a free key, and takes a claim of this client out of its queue. Returns the answer to the acquisition. third is
  -- the second result of headOf if the claim is the head. polls says that the claim was sent before: it is new if it was not in the queue any
  -- more, also if this call has put it there, which is joined.
  local function take(key, token, ttl, g, proposal, third, polls, joined)
    local reply = redis.pcall('SET', key, token, 'NX', 'PX', ttl)
    if not reply or reply.err then
      return reply or -1
    end
    local n = claims(g) and dequeue(key, token, g) or 0
    if n == 1 and third then
      tell(third, key)
    elseif n > 0 then
      tellNear(key, n)
    end
    local given, err
    if proposal ~= '' then
      given, err = fences().number(key, tonumber(proposal))
    end
    return err or acquired(key, 1, g, proposal, '', polls and (joined or n == 0), given)
  end

  -- Reports whether no client of a queue can come: all are gone or silent.
  local function deserted(key)
    local found = firstLive(key, nil, 'newcomer')
    tellNear(key, found and found.left or 0)
    return found and found.silent or not found and budget > 0
  end

  -- include recall.lua

  others = {runID = runID, tellNear = tellNear, heard = heard, judge = judge, headOf = headOf, deserted = deserted, take = take, pass = pass,
    recall = recall, readersWait = readersWait, setAside = setAside, takeBack = takeBack}
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

-- What this call knows of queues: the score of their third member, if there is one. Whoever joins with a greater score is far.
local thirds = {}

-- Passes a lock on in the usual case, with few commands: no readers wait, and the head of the queue is a live claim, or that which is
-- named is one of the first four. The key still holds the token that is released, and is set anew instead of deleted and set; with open,
-- it is deleted, and the head is told so. mine is the member of the client that releases. Returns whether the lock was passed on, or nil if
-- nothing was done. If it was not, the key is free.
--
-- Whether the client of the head is gone is not asked before: then the message about the grant reaches nobody. (It also reaches a monitor's
-- PSUBSCRIBE *. Beside one, a client that is gone costs g.) A client without a subscription never hears it, and keeps the lock.
local function handOver(key, token, mine, proposal, open, named)
  local queue = 'redlock:queue:' .. key
  local front = redis.pcall('ZRANGE', queue, 0, near, 'WITHSCORES')
  local at = 1
  while named and front[at] and not string.find(front[at], ' ' .. named, 1, true) do
    at = at + 2
  end
  local head = front[at] -- nil, too, after an error
  local client, claim, g
  if head then
    client, claim, g = parse(head)
  end
  if not claim or head == mine or otherOf(head) == mine then
    return nil
  end
  local score, deaf = tonumber(front[at + 1]), isDeaf(head)
  open = open or deaf
  if not open and not run then
    more().runID()
  end
  if not deaf and not joinedIn(lately + again, score) and more().heard(queue, head, redis.pcall('GET', 'redlock:waiter:' .. client), score) == 'silent' then
    return nil
  end
  if open then
    if redis.pcall('PUBLISH', 'redlock:wake:' .. client, token .. ' ' .. key) == 0 and not deaf or redis.pcall('DEL', key) ~= 1 then
      return nil
    end
    opened[key] = true
    local left = redis.pcall('ZREM', queue, mine, otherOf(mine))
    if type(left) == 'number' and left > 0 then
      more().tellNear(key, left)
    end
    thirds[key] = left == 0 and tonumber(front[6])
    return true
  end
  local ms, fenced = string.match(g, '^(%d+)(f?)$')
  local given, err = 0, nil
  if fenced == 'f' then
    given, err = fences().next(key, proposal)
  end
  if err or redis.pcall('SET', key, claim, 'PX', ms).err then
    return nil
  end
  local left = redis.pcall('ZREM', queue, head, mine, otherOf(mine))
  if type(left) ~= 'number' or left == 0 then
    redis.pcall('DEL', key)
    return false -- the client may not write to the queue
  end
  if left > 1 then
    more().tellNear(key, left)
  elseif at < 2 * near then
    local third = tonumber(front[2 * near + 2])
    if third and not joinedIn(newly, third) then
      tell(front[2 * near + 1], key)
    end
    thirds[key] = third
  end
  local next = 1
  while front[next] and (front[next] == head or front[next] == mine or front[next] == otherOf(mine)) do
    next = next + 2
  end
  granted[key] = claim
  if tellGrant(key, client, claim, given, front[next]) == 0 then
    granted[key], thirds[key] = nil, nil
    redis.pcall('DEL', key)
    return false -- the client is gone
  end
  return true
end

-- Puts a claim into the queue, or into rqueue, that of readers, or takes it back to its place. Returns whether it had not been
-- there, and how many members are ahead of it. If its user may not ask for that, none is: then it polls
-- often. If a release in front of it in the call has seen that three are, they are not counted. A queue is kept for ten minutes after its head
-- polled, or after a claim joined that is one of the first two, or one in 16: longer than any sleep between two polls.
local uncounted = 10 -- as if so many were ahead
function join(what, key, mine, ms, rqueue)
  if not mine or not ms then
    return false, 0
  end
  free[key] = nil
  local queue, new = rqueue or 'redlock:queue:' .. key, false
  local ticket = micros() - ms * 1000
  time = time + 1 -- claims that join in one call stay in the order of their commands
  noteRuns()
  local score = what ~= 'register' and scoreOf(queue, mine) or nil
  if not score then
    local was
    if what ~= 'register' then -- its subscription may have begun or ended since: then it keeps its place
      local other = otherOf(mine)
      was = scoreOf(queue, other)
      if was then
        redis.pcall('ZREM', queue, other)
        was = was % const.setAside -- it may have been set aside
      end
    end
    new = redis.pcall('ZADD', queue, 'NX', string.format('%.0f', was or ticket), mine) == 1 and not was
  elseif score >= const.setAside then
    more().takeBack(queue, mine, score)
  end
  local rank = uncounted
  if rqueue or not (new and thirds[key] and thirds[key] < ticket) then
    rank = redis.pcall('ZRANK', queue, mine)
    rank = type(rank) == 'number' and rank or 0
  end
  if rank == 0 or not score and (rank == 1 or micros() % 16 == 0) then
    redis.pcall('PEXPIRE', queue, const.queueLife)
  end
  return new, rank
end

-- Reports whether a deaf claim that has waited for ms may take the key although another one is the head: that one is deaf, too, and has not
-- waited for more than four times as long.
local function outwaits(key, head, ms)
  local since = isDeaf(head) and scoreOf('redlock:queue:' .. key, head)
  return since and micros() - since <= 4000 * ms
end

-- held is what the key holds.
local function acquire(what, key, token, held, ttl, waited, g, proposal)
  local text, dash = string.match(waited, '^(-?%d+)(-?)$')
  local ms = claims(g) and tonumber(text) -- for how long the claim has waited, if it is one
  local deaf = ms and dash == '-'
  local mine = joining(token, g, ms, deaf)
  local new, rank, head = false, 0, nil
  -- A claim behind an open release is not the head, which was told to look.
  if not held and ttl ~= '0' and not (what == 'register' and opened[key] and ms) then
    local third
    if what ~= 'acquire' and not free[key] then
      head, third = more().headOf(key)
    end
    if not head or head == mine or what == 'again' and deaf and outwaits(key, head, ms) or what == 'register' and (waited == '--' or more().deserted(key)) then
      return more().take(key, token, ttl, g, proposal, head == mine and third, what == 'again')
    end
  end
  if held ~= token then
    new, rank = join(what, key, mine, ms)
    if what == 'again' and not held and ttl ~= '0' and (mine or not deaf or not head or not isDeaf(head)) then
      if more().pass(key, token, nil, nil, nil, 'poll') then
        held = redis.pcall('GET', key)
      elseif budget <= 0 then -- it may be that nobody else comes
        return more().take(key, token, ttl, g, proposal, nil, true, new)
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
  local left = (held == token or rank < near) and redis.pcall('PTTL', key)
  left = type(left) == 'number' and left or -1
  if held == token then
    return acquired(key, claims(g) and 2 + math.max(left, 0) or 1, g, proposal, '', new)
  end
  return acquired(key, left < 0 and -1 or -2 - left, g, proposal, held and string.sub(held, 1, const.tokenMost) or '', new, nil, rank)
end

-- Deletes the key if it holds the token. held is what the key holds, and exist how many of its queues do, or nil.
--
-- - The readers that wait come first after a lease. After a claim that gives way, and after an attempt that is undone, they come behind the
--   queue.
local function release(what, key, token, held, exist)
  local verb, g, how, proposal = string.match(what, '^(%a+) ?(%w*) ?(%S*) ?(%d*)$')
  if verb == 'undo' then
    how = verb
  end
  local n = held and -1 or 0
  local passed
  local by, named = string.match(how or '', '^([=+])(.+)$')
  local byHolder = how == '' or how == '-' or how == 'open' or by == '+'
  if held == token and exist == 1 and byHolder and claims(g) then
    passed = handOver(key, token, member(token, g), tonumber(proposal) ~= 0 and tonumber(proposal) or nil, how == 'open', named)
  end
  if passed then
    return 2
  elseif held == token then
    n = passed == nil and redis.pcall('DEL', key) or 1
    granted[key] = nil
  end
  if type(n) == 'table' then
    return n
  end
  local left = verb ~= 'undo' and claims(g) and dequeue(key, token, g) or 0
  if left > 0 then
    more().tellNear(key, left)
  end
  if n == -1 or how == 'free' or how == 'undo' and n == 0 or queuesOf(key) == 0 then
    return n
  end
  proposal = tonumber(proposal) ~= 0 and tonumber(proposal) or nil
  local lease = n == 1 and byHolder
  if (lease or named == marker) and readers().letIn(key, proposal, lease, how == 'open' and token) then
    return n == 1 and 2 or n
  end
  return more().pass(key, token, how, named, proposal, nil, not lease) and n == 1 and 2 or n
end

-- Answers a command. held is what the key holds, and exist how many of its queues do. nil: that is not known.
local word, parts -- the last word and its parts
local function answer(what, key, token, held, exist)
  if held == nil then
    held = granted[key] or not opened[key] and valueOf(key)
  end
  if isRelease(what) then
    return type(held) == 'table' and held or release(what, key, token, held, exist)
  elseif what ~= word then
    word, parts = what, {string.match(what, '^(%a+) ?(%d*) ?([%d-]*) ?([%df-]*) ?(%d*)$')}
  end
  local verb, one, two, g, proposal = unpack(parts) -- what one and two are depends on the verb
  if not verb then
    granted[key], opened[key] = nil, nil
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
  local fixed, ttl = tonumber(one), two -- to commit
  return fences().commit(key, fixed, ttl)
end

if #KEYS == 1 then
  return answer(ARGV[2], KEYS[1], ARGV[3], before, exist)
end
for i, key in ipairs(KEYS) do
  answers[i] = answers[i] or answer(ARGV[2 * i], key, ARGV[2 * i + 1], before, exist)
  before, exist = nil, nil
end
return reply(answers)
