--!df flags=allow-undeclared-keys
-- Acquires the locks of several names: sets all keys, or none. KEYS are the keys of the locks. ARGV are the id of
-- the calling client, a word, the ttl in ms, a proposed fence or '', and the token. Then there may follow, for
-- each key, an earlier token of the same client, which gives way to the token.
--
--   acquire  set the keys, unless one of them exists and holds neither the token nor the earlier one
--   behind   the same, but do not overtake clients in the queue of a key
--   follow   release the keys, which hold the earlier tokens, and acquire them at once, if no client is in a
--            queue, neither of readers nor of others. Else do nothing, and return an error: then the commands are sent one by one
--
-- The answer is 1 if the keys were set, and no fence was proposed. Otherwise it is a list of four numbers. The
-- first one is that of batch.lua for an acquisition. If it was refused, the time to live is that of the key in the
-- way that lives longest, and the third number says which key this is, from 1 on. With a proposed fence, the
-- second number is the fence that all keys were given, or the highest fence of the keys. The fourth number is 1 if
-- nobody but readers is in the way. All commands for several
-- names but the acquisition are calls of batch.lua.
local word, ttl, proposal, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Sets all keys, and returns an error if that is impossible. Then none is set.
local function setAll()
  for i, key in ipairs(KEYS) do
    local reply = redis.pcall('SET', key, token, 'PX', ttl)
    if reply.err then
      for j = 1, i - 1 do
        redis.pcall('DEL', KEYS[j])
      end
      return reply
    end
  end
end

-- Returns the keys of the queues, and those of the queues of readers if readers is set.
local function queues(readers)
  local all = {}
  for _, key in ipairs(KEYS) do
    all[#all + 1] = 'redlock:queue:' .. key
    all[#all + 1] = readers and 'redlock:rqueue:' .. key or nil
  end
  return all
end

if word == 'follow' then
  local held = redis.pcall('MGET', unpack(KEYS)) -- an error has no elements
  for i = 1, #KEYS do
    if held[i] ~= ARGV[5 + i] then
      return redis.error_reply('ERR a key is not held')
    end
  end
  if redis.pcall('EXISTS', unpack(queues(true))) ~= 0 then
    return redis.error_reply('ERR a client is in a queue')
  end
  return setAll() or 1
end

-- Usually no key exists, and none has a queue. Such a call returns before the functions below are made.
local yields = word == 'behind'
if proposal == '' and redis.pcall('EXISTS', unpack(KEYS)) == 0
  and not (yields and redis.pcall('EXISTS', unpack(queues())) ~= 0) then
  return setAll() or 1
end

-- include fences.lua

-- include recall.lua

-- Returns the number of the key that another client holds and that lives longest, or 0, how long it lives, and 1 if
-- readers hold all such keys, else 0.
local function held()
  local which, longest, readers = 0, -1, 1
  for i, key in ipairs(KEYS) do
    local value = redis.pcall('GET', key) -- a table, if the value is not a lock
    if value and value ~= token and value ~= ARGV[5 + i] then
      recall(key, value)
      local left = redis.pcall('PTTL', key)
      if type(left) ~= 'number' or left < 0 then
        left = math.huge
      end
      if left > longest then
        which, longest = i, left
      end
      if value ~= const.readersMarker then
        readers = 0
      end
    end
  end
  return which, longest, readers
end

-- Returns the number of a key that has a queue, or 0.
local function queued()
  for i, queue in ipairs(queues()) do
    if redis.pcall('EXISTS', queue) == 1 then
      return i
    end
  end
  return 0
end

-- Returns what held does, or the number of a key that has a queue.
local function inTheWay()
  local which, left, readers = held()
  if which == 0 and yields then
    return queued(), math.huge, 0
  end
  return which, left, readers
end

-- Returns the highest fence of the keys, or an error.
local function highest()
  local top = 0
  for _, key in ipairs(KEYS) do
    local last, err = fence(key)
    if err then
      return nil, err
    end
    top = math.max(top, last)
  end
  return top
end

local last, err = 0, nil
if proposal ~= '' then
  last, err = highest()
  if err then
    return err
  end
end
local which, left, readers = inTheWay()
if which > 0 then
  return {left == math.huge and -1 or -2 - left, last, which, readers}
end
err = setAll()
if err or proposal == '' then
  return err or 1
end
local now = ticks()
local given = math.max(last + 1, math.min(tonumber(proposal), now + second))
for _, key in ipairs(KEYS) do
  err = raise(key, given, now)
  if err then
    redis.pcall('DEL', unpack(KEYS))
    return err
  end
end
return {1, given, 0, 0}
