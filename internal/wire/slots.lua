--!df flags=allow-undeclared-keys
-- Executes the commands of semaphores. The form of a call is that of batch.lua: KEYS are the keys of the semaphores, ARGV[1] is the
-- id of the calling client, and two arguments follow for each key, a word and a token. At last there may be the client's patience and
-- how much longer it may take. docs/protocol.md has the rules.
--
-- A semaphore with a limit of K has the slots 0 to K-1. A token stands in slots: a slot is given to one token, which leaves it only by
-- its own command, or when the slot expires. The token that stands in a slot at a quorum of masters holds it.
--
--   register ttl limit n first g waited  stand in n free slots for ttl ms, unless clients queue, or fewer are free. Else join the
--            queue for slots that are granted for g ms, unless waited is '-'. The slot first is preferred
--   again g limit n first g waited slots  the same for a claim that was registered, as a poll. Free slots are passed on. The answer
--            tells who stands in these slots
--   aim g limit n first g waited slots  as a poll: leave the queue and all slots but these. Stand in these for g ms where they are free, and
--            else wish them: a slot that becomes free is given to the token that wishes it. The answer is that of again
--   heal ttl limit n first g - slots  by a holder: aim for ttl ms. The answer is 1 if the token stands in all of them, else 0
--   renew ttl slots  stand in these slots for ttl ms from now on, and leave others, if the token stands in all of them. The answer
--            is 1, 2 if a client queues, or 0
--   fence ttl slots number  by a claim that has a quorum for each of these slots: as commit, but the number of the semaphore
--            rises by one at least, and to the lower of number and a second ahead of the clock
--   commit ttl slots number  raise the number of the semaphore to this one, if it is lower. Let these slots live for ttl ms from now on,
--            as far as the token stands in them. If it stands in none, change nothing. The answer has two parts: the slots in which the token
--            stands, and the number, or 0 if there are none. The answer to fence is the same
--   release limit n first g  leave all slots, all wishes and the queue. The slots are passed on. The answer is 1, or 0 if the token stood
--            in no slot
--
-- The answer to register, again and aim has six parts. The first is 1 if the token was given slots just now. It is 2 and the time for which
-- they live if it stood in slots before. It is -2 and less by the time until the next slot expires if it stands in none. Then
-- there are its slots, who stands in the slots that were asked for, and 1 if the claim was not known before, else 0. Then there is, to register,
-- the limit that was in use last if that is another one, else 0. The last is how many are ahead of the claim in the queue.
--
-- KEYS[i] is redlock:slots: and the key of the semaphore. It is a hash. A slot has the field of its number with the token, and a field
-- with a w before the number with the token that wishes it, until when, and 1 if that is a claim. A token has a field with an @ before
-- it: its client, g, its limit, '!' if it has aimed, else '-', and its slots. The field limit has the limit of the token whose field
-- was written last. The field crossed has slots that were wished while a token stood in them: see exchange. docs/protocol.md has the other keys.
local id = ARGV[1]

-- The form of a claim in a queue: more follows.
local claimText = '^(%S*) (%S+) (%d+) '

-- Whether usual() has begun to write, and how many members it has taken out of the queue, if claims were not told since.
local writes, left = false, 0

-- The run_id of this server's process: see batch.lua.
local run

-- Returns how many claims are near, by a limit: a release may free several slots. It is NearOf in slots.go.
local function nearOf(limit) return math.max(const.near, math.min(tonumber(limit), const.nearMost)) end

-- Returns the place in members of the one that a free slot goes to. members are the first of a queue, with their scores, and the first near of these
-- are near; now is in µs. As a rule it is one that prefers the slot: masters that see several slots become free, each in another order, then give
-- each slot to the same claim. If none of the members does, it is the first that prefers no slot that it has released, or the same one as a member
-- before it, else the head.
--
-- The head waits for no longer than twice as long as a member that passes it, and twice passing. Members that want several slots,
-- or have another limit, are not passed.
local passing = 30000 -- in µs
local function choose(slot, members, limit, near, now)
  local latest = (tonumber(members[2]) + now) / 2 + passing
  local same, other = {}, nil
  for i = 1, math.min(#members, 2 * near), 2 do
    local n, size, prefers = string.match(members[i], ' (%d+) (%d+) (%d+!?)$')
    if n ~= '1' or size ~= limit or tonumber(members[i + 1]) > latest then
      break
    elseif prefers == slot then
      return i
    end
    other = other or (same[prefers] or not string.find(prefers, '!', 1, true)) and i
    same[prefers] = true
  end
  return other or 1
end

-- Returns who stands in some slots of a semaphore: the number, and the beginning of the token.
local function standing(key, slots)
  local all = {}
  for s in string.gmatch(slots, '%d+') do
    local token = redis.call('HGET', key, s)
    if token then
      all[#all + 1] = s .. '=' .. string.sub(token, 1, const.standingBytes)
    end
  end
  return table.concat(all, ' ')
end

-- Executes what contending clients ask for most often, as usual() in batch.lua does: a release of one slot, which a claim that has joined lately is
-- granted, and the registration of the next claim, while no other slot is free. Returns the reply, or nil: then the text behind this function
-- executes the call.
local function usual()
  local key, token, claim = KEYS[1], ARGV[3], ARGV[5]
  if #KEYS ~= 2 or KEYS[2] ~= key then
    return nil
  end
  local limit, preferred, g = string.match(ARGV[2], '^release (%d+) 1 (%d+!?) (%d+)$')
  local size, prefers, grantFor, waited, asked = string.match(ARGV[4], '^register %d+ (%d+) 1 (%d+!?) (%d+) (%d+) ?(%S*)$')
  if not limit or size ~= limit then
    return nil
  end
  local base = string.sub(key, 15)
  local queue, untilKey = 'redlock:permits:' .. base, 'redlock:until:' .. base
  local record = redis.call('HGET', key, '@' .. token)
  local slot = record and string.match(record, '^%S* %d+ %d+ %- (%d+)$')
  if not slot or tonumber(slot) >= tonumber(limit) or redis.call('HGET', key, 'w' .. slot) or redis.call('HGET', key, 'crossed') or redis.call('HGET', key, '@' .. claim) then
    return nil
  end
  local now = redis.call('TIME')
  local micros = now[1] * 1000000 + now[2]
  local clock = math.floor(micros / 1000)
  local first = redis.call('ZRANGE', untilKey, 0, 0, 'WITHSCORES')[2]
  if redis.call('ZCARD', untilKey) ~= tonumber(limit) or tonumber(first) <= clock then
    return nil
  end

  local near = nearOf(limit)
  local front = redis.call('ZRANGE', queue, 0, near, 'WITHSCORES')
  local mine = id .. ' ' .. token .. ' ' .. g .. ' 1 ' .. limit .. ' ' .. preferred
  for i = 1, #front, 2 do
    if front[i] == mine then
      return nil
    end
  end
  local at = front[1] and choose(slot .. '!', front, limit, near, micros) or 1
  local lately = micros - const.joinedLately * 1000
  local head, score = tonumber(front[2]), tonumber(front[at + 1])
  local client, next, life, n, of = string.match(front[at] or '', '^(%S*) (%S+) (%d+) (%d+) (%d+) ')
  if not next or next == claim or n ~= '1' or of ~= limit or head < lately or score > micros then
    return nil
  end
  if at == 1 and front[3] and string.match(front[3], ' (%d+) %d+!?$') ~= limit then
    return nil -- for another limit there may be room left
  end
  writes = true
  left = redis.pcall('ZREM', queue, front[at], mine)
  left = type(left) == 'number' and left or 0
  if left == 0 then
    return nil -- the client may not write to the queue
  end
  table.remove(front, at)
  table.remove(front, at)
  redis.call('HDEL', key, '@' .. token)
  redis.call('HSET', key, '@' .. next, client .. ' ' .. life .. ' ' .. limit .. ' - ' .. slot, 'limit', limit, slot, next)
  redis.call('ZADD', untilKey, string.format('%.0f', clock + life), slot)
  if redis.call('PTTL', untilKey) < life + 60000 then -- see keep
    for _, name in ipairs({key, untilKey, 'redlock:taken:' .. base}) do
      redis.call('PEXPIRE', name, string.format('%.0f', life + const.queueLife))
    end
  end
  local age = redis.pcall('PTTL', 'redlock:incarnation')
  if not run then
    local info = redis.pcall('INFO', 'server')
    run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
  end
  local message = '* ' .. next .. ' ' .. run .. ' ' .. (type(age) == 'number' and age or -1) .. ' ' .. slot .. ' ' .. key
  if redis.pcall('PUBLISH', 'redlock:wake:' .. client, message) == 0 then
    redis.call('HDEL', key, '@' .. next)
    redis.call('HSET', key, '@' .. token, record, slot, token)
    return nil
  end
  -- See tellNear.
  for i = 2 * math.max(near - left, 0) + 1, math.min(#front, 2 * near), 2 do
    local age = (micros - front[i + 1]) / 1000
    if age < 0 or age > const.markLeast then
      local client, claim, ms = string.match(front[i], claimText)
      if claim and (age < 0 or age > math.min(ms - const.stopMost, ms / 2)) then
        redis.pcall('PUBLISH', 'redlock:wake:' .. client, '= ' .. claim .. ' ' .. key)
      end
    end
  end

  left = 0
  -- See register.
  local patience, far = tonumber(ARGV[6]), tonumber(ARGV[7])
  if patience and far then
    redis.pcall('SET', 'redlock:waiter:' .. id, string.format('%.0f %.0f', micros / 1000 + patience, far),
      'PX', string.format('%.0f', patience + far + const.noteLife))
  end
  mine = id .. ' ' .. claim .. ' ' .. grantFor .. ' 1 ' .. limit .. ' ' .. prefers
  local new = redis.pcall('ZADD', queue, 'NX', string.format('%.0f', micros - waited * 1000), mine)
  local rank = redis.pcall('ZRANK', queue, mine)
  rank = type(rank) == 'number' and rank or 0
  if rank <= 1 or micros % 16 == 0 then
    redis.pcall('PEXPIRE', queue, const.queueLife)
  end
  first = redis.call('ZRANGE', untilKey, 0, 0, 'WITHSCORES')[2]
  return {1, {-2 - math.max(first - clock, 0), '', standing(key, asked), new == 1 and 1 or 0, 0, rank}}
end

-- Here a text for one process sets run.
local ok, reply = pcall(usual)
if not ok and writes then
  reply = redis.error_reply(type(reply) == 'table' and reply.err or tostring(reply))
  return {reply, reply}
elseif ok and reply then
  return reply
end

-- include queue.lua

-- The keys of the current semaphore, and what is known of it in this call: for how many ms the keys live, and
--   count     how many slots are taken
--   purged    no slot has expired
--   loose     slots that a release has left, and that are still marked as taken: the next claims are given these
--   queue     the claims that wait: see queue.lua
--   lastLimit the field limit, if this call has written it
local slotsKey, untilKey, takenKey, lives, count, purged, loose, queue, lastLimit

local function switchTo(key)
  if key == slotsKey then
    return
  end
  local base = string.sub(key, 15)
  slotsKey = key
  untilKey = 'redlock:until:' .. base
  takenKey = 'redlock:taken:' .. base
  lives, count, purged, loose, lastLimit = 0, nil, false, {}, nil
  queue = {name = 'redlock:permits:' .. base, key = key, near = nil, left = left, slots = true, front = nil, whole = nil}
  left = 0
end

-- Lets the keys live for longer than all that is in them.
local function keep(life)
  if lives >= life then
    return
  end
  lives = life
  if redis.call('PTTL', untilKey) < life + 60000 then -- the record lives as long: it is never without fields while a slot is taken
    local ms = text(life + const.queueLife)
    redis.call('PEXPIRE', slotsKey, ms)
    redis.call('PEXPIRE', untilKey, ms)
    redis.call('PEXPIRE', takenKey, ms)
  end
end

-- Returns what is known of a token: client, terms (g and the limit), whether it has aimed, and its slots. Returns nil if nothing is.
local function known(token)
  local r = redis.call('HGET', slotsKey, '@' .. token)
  if not r then
    return nil
  end
  local client, terms, aimed, list = string.match(r, '^(%S*) (%d+ %d+) (.) (%S*)$')
  return client, terms, aimed == '!', list
end

local function store(token, client, terms, aimed, list)
  if list == '' and not aimed then
    redis.call('HDEL', slotsKey, '@' .. token)
  else
    lastLimit = string.match(terms, '%d+$')
    redis.call('HSET', slotsKey, '@' .. token, client .. ' ' .. terms .. (aimed and ' ! ' or ' - ') .. list, 'limit', lastLimit)
  end
end

local function without(list, slot)
  local rest = {}
  for s in string.gmatch(list, '%d+') do
    if s ~= slot then
      rest[#rest + 1] = s
    end
  end
  return table.concat(rest, ',')
end

local function with(list, slot)
  return list == '' and slot or list .. ',' .. slot
end

-- Lets a slot of a token live until a time. It never lives for less than before: the token may be that of a holder.
local function prolong(slot, expiry)
  if tonumber(redis.call('ZSCORE', untilKey, slot) or 0) < expiry then
    redis.call('ZADD', untilKey, text(expiry), slot)
  end
end

-- Returns how many slots are taken, without those that are loose.
local function taken()
  count = count or redis.call('ZCARD', untilKey) - #loose
  return count
end

-- Has a token stand in a slot that is marked as taken.
local function occupy(slot, token, expiry)
  redis.call('HSET', slotsKey, slot, token)
  redis.call('ZADD', untilKey, text(expiry), slot)
end

-- Has a token stand in free slots, as from free, and in no others.
local function give(slots, token, client, terms, expiry)
  count = taken() + #slots
  local list = table.concat(slots, ',')
  lastLimit = string.match(terms, '%d+$')
  local fields, ends = {'@' .. token, client .. ' ' .. terms .. ' - ' .. list, 'limit', lastLimit}, {}
  for _, slot in ipairs(slots) do
    fields[#fields + 1] = slot
    fields[#fields + 1] = token
    ends[#ends + 1] = text(expiry)
    ends[#ends + 1] = slot
  end
  redis.call('HSET', slotsKey, unpack(fields))
  redis.call('ZADD', untilKey, unpack(ends))
  return list
end

-- Makes a slot free.
local function remove(slot)
  redis.call('HDEL', slotsKey, slot)
  redis.call('ZREM', untilKey, slot)
  redis.call('SETBIT', takenKey, slot, 0)
  lives = 0 -- the keys may be gone
end

-- Grants a slot to a claim, and tells it. All its slots live for at least as long as this one.
local function grant(slot, token, client, terms, aimed, list)
  local g = tonumber(string.match(terms, '%d+'))
  local expiry = clock() + g
  for s in string.gmatch(list, '%d+') do
    prolong(s, expiry)
  end
  occupy(slot, token, expiry)
  list = with(list, slot)
  store(token, client, terms, aimed, list)
  keep(g)
  tellGrant('*', client, token, list, slotsKey) -- all its slots live for g from now on
end

-- Gives a slot that a token leaves to the token that wishes it, or to partner, or makes it free: loose says that the next claim is to have it.
local function vacate(slot, token, partner, isLoose)
  local wish = redis.call('HGET', slotsKey, 'w' .. slot)
  if wish then
    redis.call('HDEL', slotsKey, 'w' .. slot)
    local other, expiry, claims = string.match(wish, '^(%S+) (%d+) (%d)$')
    local client, terms, aimed, list = known(other)
    if other ~= token and client and tonumber(expiry) > clock() then
      if claims == '1' then
        grant(slot, other, client, terms, aimed, list)
      else
        occupy(slot, other, tonumber(expiry))
        store(other, client, terms, aimed, with(list, slot))
      end
      return
    elseif client and list == '' then
      redis.call('HDEL', slotsKey, '@' .. other)
    end
  end
  if partner then
    local client, terms, aimed, list = known(partner)
    if client and not aimed then
      grant(slot, partner, client, terms, false, list)
      return
    end
  end
  count = taken() - 1
  if isLoose then
    loose[#loose + 1] = slot
  else
    remove(slot)
  end
end

-- The commands are in a function of their own: see batch.lua.
local function commands()

-- Makes the bitmap that of the slots that are taken. A script that ended with an error may have left another one.
local function restore()
  redis.call('DEL', takenKey)
  for _, slot in ipairs(redis.call('ZRANGE', untilKey, 0, -1)) do
    redis.call('SETBIT', takenKey, slot, 1)
  end
end

-- Returns n slots below a limit that are free by the bitmap, and marks them there. Returns nil if there are fewer.
local function search(n, limit, first)
  local found = {}
  local function try(slot)
    if not redis.call('HGET', slotsKey, text(slot)) then
      found[#found + 1] = text(slot)
    end
    redis.call('SETBIT', takenKey, slot, 1)
  end
  if first and first < limit and redis.call('SETBIT', takenKey, first, 1) == 0 then
    try(first)
  end
  local from, wrapped = 0, true
  if first and first < limit then
    from = math.floor(first / 8)
    wrapped = false
  end
  while #found < n do
    local slot = redis.call('BITPOS', takenKey, 0, from)
    if slot >= 0 and slot < limit then
      try(slot)
    elseif wrapped then
      return nil -- the bitmap is wrong: see restore
    else
      from = 0
      wrapped = true
    end
  end
  return found
end

-- Returns n free slots below a limit, or nil: first those that are loose. No slot is given while as many are taken as the limit allows, whatever
-- their numbers.
local function free(n, limit, first)
  if taken() + n > limit then
    return nil
  end
  local found, rest = {}, {}
  for _, slot in ipairs(loose) do
    local list = #found < n and tonumber(slot) < limit and found or rest
    list[#list + 1] = slot
  end
  if #found < n then
    local more = search(n - #found, limit, first)
    if not more then
      restore()
      more = search(n - #found, limit, first)
    end
    if not more then
      return nil
    end
    for _, slot in ipairs(more) do
      found[#found + 1] = slot
    end
  end
  loose = rest
  return found
end

-- Takes slots that have expired from their tokens. Reports whether there were any.
local function purge()
  if purged then
    return false
  end
  local old = redis.call('ZRANGEBYSCORE', untilKey, '-inf', text(clock()), 'LIMIT', 0, 64)
  for _, slot in ipairs(old) do
    local token = redis.call('HGET', slotsKey, slot) or ''
    local client, terms, aimed, list = known(token)
    if client then
      list = without(list, slot)
      store(token, client, terms, aimed and list ~= '', list)
    end
    vacate(slot, token)
  end
  purged = #old < 64
  return #old > 0
end

-- Reports whether a client has ended: its channel has no subscriber. Where it is sent a message, the answer to that says so, too.
local function gone(client)
  return tonumber(redis.call('PUBSUB', 'NUMSUB', 'redlock:wake:' .. client)[2]) == 0
end

-- Notes that a claim may be in the way of the token that wishes its slot: see exchange.
local function noteCrossed(slot)
  local crossed = redis.call('HGET', slotsKey, 'crossed') or ''
  if not string.find(',' .. crossed .. ',', ',' .. slot .. ',', 1, true) then
    redis.call('HSET', slotsKey, 'crossed', with(crossed, slot))
  end
end

-- Gives free slots to claims that are in the way of a wish. Such a claim stands in one slot at this master only, and another token wishes
-- that slot. The other masters give the claim a slot that becomes free next. This master gives it the same slot. So the claim wins that
-- slot, and leaves the slot that is wished. If this master gave the free slot to the head of the queue instead, it would be one grant ahead
-- of the other masters again, and the votes would be split again.
local function exchange()
  local crossed = redis.call('HGET', slotsKey, 'crossed')
  if not crossed then
    return
  end
  local rest = ''
  for slot in string.gmatch(crossed, '%d+') do
    local token = redis.call('HGET', slotsKey, slot)
    local client, terms, aimed, list = nil, nil, nil, nil
    if token and redis.call('HGET', slotsKey, 'w' .. slot) then
      client, terms, aimed, list = known(token)
    end
    if client and not aimed and list == slot and not gone(client) then
      local slots = free(1, tonumber(string.match(terms, '%d+$')))
      if slots then
        count = count + 1
        grant(slots[1], token, client, terms, false, list)
      else
        rest = with(rest, slot)
      end
    end
  end
  if rest == '' then
    redis.call('HDEL', slotsKey, 'crossed')
  elseif rest ~= crossed then
    redis.call('HSET', slotsKey, 'crossed', rest)
  end
end

-- It is assumed that a client that is unheard is stopped: one was found silent, or slots are free that nobody has released.
local suspect

-- Reports whether a member of the queue can be given slots. If not, it is taken out of the way: a client that has ended is removed, and one that may
-- be stopped is told that it is near, so that it polls, and set aside. If fewer slots are free than it wants, one that is unheard stays. Whether
-- a client has ended that can be given slots is seen when it is told: see pass.
local function ready(m, score, blocked)
  local client, token = parse(m)
  local state = token and (joinedIn(const.joinedLately, score) and 'live'
    or queueing().heard(queue, m, redis.pcall('GET', 'redlock:waiter:' .. client), score))
  local ended = not token or blocked and gone(client)
  if not ended and (state == 'live' or state == 'unheard' and (blocked or not suspect)) then
    return true
  elseif ended or gone(client) then
    leave(queue, m)
    return false
  elseif score < const.setAside then
    tell(m, slotsKey)
    queueing().setAside(queue, m, score)
  end
  suspect = true
  return false
end

-- Returns the member of the queue that free slots are to be passed on to, the slots, and which were loose before: nil if there is none.
local function nextOf()
  while budget > 0 do
    budget = budget - 1
    local members = frontOf(queue)
    local m, score = members[1], tonumber(members[2])
    if not m then
      return nil
    end
    local n, limit = string.match(m, ' (%d+) (%d+) %d+!?$')
    local room = limit and limit - taken() or 1
    if room < 1 then
      return nil
    elseif ready(m, score, room < (tonumber(n) or 0)) then
      local before = loose
      local slots = free(tonumber(n), tonumber(limit))
      if not slots then
        return nil
      end
      local at = n == '1' and #members > 2 and choose(slots[1] .. '!', members, limit, queue.near, micros()) or 1
      if at == 1 or ready(members[at], tonumber(members[at + 1])) then
        return members[at], slots, before
      end
      table.insert(loose, 1, slots[1])
    elseif score >= const.setAside then
      return nil -- all are silent
    end
  end
end

-- Takes back the slots that a claim was given that has not heard of it. before are those that were loose before that.
local function takeBackFrom(token, slots, before)
  local free = {}
  for _, slot in ipairs(before) do
    free[slot] = true
  end
  for _, slot in ipairs(slots) do
    before[#before + 1] = not free[slot] and slot or nil
  end
  loose = before
  count = count - #slots
  budget = budget - #slots
  redis.call('HDEL', slotsKey, '@' .. token, unpack(slots))
end

-- Passes free slots on: to claims that are in the way, and to those in the queue. Whether a client is gone is not asked before: then the
-- message about the grant reaches nobody. (It also reaches a monitor's PSUBSCRIBE *. Beside one, a client that is gone costs g.) All but releases are careful: see suspect.
local function pass(careful)
  suspect = careful
  exchange()
  for m, slots, before in nextOf do
    leave(queue, m)
    local client, token, g, limit = string.match(m, '^(%S*) (%S+) (%d+) %d+ (%d+)')
    local list = give(slots, token, client, g .. ' ' .. limit, clock() + g)
    keep(tonumber(g))
    if tellGrant('*', client, token, list, slotsKey) == 0 then
      takeBackFrom(token, slots, before)
    end
  end
  if not careful and taken() == 0 then -- nothing else is kept
    redis.call('DEL', slotsKey, untilKey, takenKey)
    lives, lastLimit = 0, nil
  else
    for _, slot in ipairs(loose) do
      remove(slot)
    end
  end
  loose = {}
end

-- Returns the limit that was in use last if it is another one than this, else 0.
local function otherLimit(limit)
  local last = lastLimit or redis.call('HGET', slotsKey, 'limit')
  return last and last ~= limit and tonumber(last) or 0
end

-- ahead is how many are ahead of a claim that stands in no slot, or nil if that is not known.
local function state(token, asked, new, other, m, ahead)
  local list = ''
  if not ahead then
    local _, _, _, all = known(token)
    list = all or ''
  end
  if list ~= '' then
    local least
    for s in string.gmatch(list, '%d+') do
      local expiry = tonumber(redis.call('ZSCORE', untilKey, s) or 0)
      least = math.min(least or expiry, expiry)
    end
    return {2 + math.max(least - clock(), 0), list, standing(slotsKey, asked), new, other, 0}
  end
  local first = redis.call('ZRANGE', untilKey, 0, 0, 'WITHSCORES')[2]
  local rank = ahead or redis.pcall('ZRANK', queue.name, m) -- without the right to it, all are near
  return {-2 - (first and math.max(tonumber(first) - clock(), 0) or 0), '', standing(slotsKey, asked), new, other,
    type(rank) == 'number' and rank or 0}
end

-- The slot that the claim of the current command prefers.
local preferred

local function member(token, limit, n, g)
  return id .. ' ' .. token .. ' ' .. g .. ' ' .. n .. ' ' .. limit .. ' ' .. preferred
end

-- Has the claim of the current command stand in free slots. Returns these, or nil if there are too few.
local function take(token, life, limit, n, g)
  local slots = free(tonumber(n), tonumber(limit), tonumber(string.match(preferred, '%d+')))
  if not slots then
    return nil
  end
  local list = give(slots, token, id, g .. ' ' .. limit, clock() + life)
  keep(tonumber(life))
  return list
end

local function register(what, token, life, limit, n, g, waited, slots)
  local expired = purge()
  local other = what == 'register' and otherLimit(limit) or 0
  local m = member(token, limit, n, g)
  if waited ~= '-' then
    noteRuns()
  end
  if known(token) then
    return state(token, slots, 0, other, m)
  end
  local front = frontOf(queue)
  if not front[1] or tonumber(front[2]) >= const.setAside then -- nobody queues, or all who do are silent
    local list = take(token, life, limit, n, g)
    if list then
      return {1, list, standing(slotsKey, slots), 1, other, 0}
    end
  end
  local polls = what == 'again'
  local new, ahead = false, 0
  if waited ~= '-' then
    new, ahead = join(queue, m, polls, waited)
  end
  if expired or polls then
    pass(true)
    if budget <= 0 and polls and not known(token) and take(token, life, limit, n, g) then -- it may be that nobody else comes
      leave(queue, m)
    end
  end
  return state(token, slots, new and 1 or 0, other, m, not (expired or polls) and ahead)
end

local function aim(token, life, limit, n, g, slots, claims)
  local queued = leave(queue, member(token, limit, n, g)) == 1
  purge()
  local client, _, _, list = known(token)
  local expiry, have, target, partner = clock() + life, '', {}, nil
  for s in string.gmatch(slots, '%d+') do
    target[s] = true
    local owner = redis.call('HGET', slotsKey, s)
    if not owner then
      count = taken() + 1
      occupy(s, token, expiry)
      redis.call('SETBIT', takenKey, s, 1)
      have = with(have, s)
    elseif owner == token then
      prolong(s, expiry)
      have = with(have, s)
    else
      redis.call('HSET', slotsKey, 'w' .. s, token .. ' ' .. text(expiry) .. ' ' .. claims)
      partner = owner
      noteCrossed(s)
    end
  end
  store(token, id, g .. ' ' .. limit, true, have)
  for s in string.gmatch(list or '', '%d+') do
    if not target[s] then
      vacate(s, token, partner)
    end
  end
  keep(tonumber(life))
  pass(true)
  return have == slots, (client or queued) and 0 or 1
end

-- While the server's memory is full, it refuses a ZADD that is the first write of a script, but none behind a ZREM. So a ZREM without an
-- effect comes first: holders keep their permits.
local function renew(token, ttl, slots)
  local client, terms, aimed, list = known(token)
  for s in string.gmatch(slots, '%d+') do
    if redis.call('HGET', slotsKey, s) ~= token or tonumber(redis.call('ZSCORE', untilKey, s) or 0) <= clock() then
      return 0 -- the holder heals it: it may have to leave a wish
    end
  end
  if not client then
    return 0
  end
  redis.call('ZREM', untilKey, '')
  local expiry, mine = text(clock() + ttl), {}
  for s in string.gmatch(slots, '%d+') do
    redis.call('ZADD', untilKey, expiry, s)
    mine[s] = true
  end
  keep(tonumber(ttl))
  if list ~= slots then
    store(token, client, terms, aimed, slots)
    for s in string.gmatch(list, '%d+') do
      if not mine[s] then
        vacate(s, token)
      end
    end
    pass(true)
  end
  return redis.call('EXISTS', queue.name) + 1
end

local function commit(what, token, ttl, slots, number)
  -- include fences.lua

  local list = ''
  for s in string.gmatch(slots, '%d+') do
    if redis.call('HGET', slotsKey, s) == token and tonumber(redis.call('ZSCORE', untilKey, s) or 0) > clock() then
      list = with(list, s)
    end
  end
  if list == '' then
    return {'', 0}
  end
  local last, err
  if what == 'commit' then
    last, err = raiseTo(slotsKey, number)
  else
    last, err = nextFence(slotsKey, number)
  end
  if err then
    return err
  end
  for s in string.gmatch(list, '%d+') do
    prolong(s, clock() + ttl)
  end
  keep(tonumber(ttl))
  return {list, last}
end

-- The wishes of the token end with its record: see vacate.
local function release(token, limit, n, g)
  leave(queue, member(token, limit, n, g))
  purge()
  local client, _, _, list = known(token)
  if client then
    redis.call('HDEL', slotsKey, '@' .. token)
    for s in string.gmatch(list, '%d+') do
      vacate(s, token, nil, true)
    end
  end
  pass()
  return client and list ~= '' and 1 or 0
end

local function answer(word, token)
  local what, life, limit, n, prefers, g, waited, slots =
    string.match(word, '^(%a+) (%d+) (%d+) (%d+) (%d+!?) (%d+) (%S+) ?(%S*)$')
  if what then
    preferred = prefers
    queue.near = nearOf(limit)
  end
  if what == 'register' or what == 'again' then
    return register(what, token, life, limit, n, g, waited, slots)
  elseif what == 'aim' then
    local _, new = aim(token, life, limit, n, g, slots, '1')
    return state(token, slots, new, 0, '')
  elseif what == 'heal' then
    return aim(token, life, limit, n, g, slots, '0') and 1 or 0
  end
  local ttl, list = string.match(word, '^renew (%d+) (%S+)$')
  if ttl then
    queue.near = const.nearMost -- more are told than are near, perhaps
    return renew(token, ttl, list)
  end
  local verb, within, numbers, number = string.match(word, '^(%a+) (%d+) (%S+) (%d+)$')
  if verb == 'fence' or verb == 'commit' then
    queue.near = const.nearMost
    return commit(verb, token, within, numbers, tonumber(number))
  end
  local size, count, prefers, grantFor = string.match(word, '^release (%d+) (%d+) (%d+!?) (%d+)$')
  if size then
    preferred = prefers
    queue.near = nearOf(size)
    return release(token, size, count, grantFor)
  end
  return redis.error_reply('ERR unknown word')
end

-- An error about one key must not affect the others.
local function guarded(key, word, token)
  switchTo(key)
  local ok, result = pcall(answer, word, token)
  if ok then
    tellNear(queue, string.sub(word, 1, 7) == 'release')
  end
  if not ok then
    slotsKey = nil
    return redis.error_reply(type(result) == 'table' and result.err or tostring(result))
  end
  return result
end

if #KEYS == 1 then
  return guarded(KEYS[1], ARGV[2], ARGV[3])
end
local answers = {}
for i, key in ipairs(KEYS) do
  answers[i] = guarded(key, ARGV[2 * i], ARGV[2 * i + 1])
end
return answers
end

return commands()
