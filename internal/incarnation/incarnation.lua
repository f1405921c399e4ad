-- Judges the record of a master's memory, at KEYS[1], and replaces it if it does not hold. ARGV:
--   the caller's database, or '-' if it does not know
--   what to do: keep, write a new record unless the old one holds; read, write nothing; adopt, declare
--       that nobody holds a lock here
--   a record that the caller knows to hold no longer, or ''
--   the largest MaxTTL that the caller knows of, in ms; for adopt, the one that counts from now on
--   for adopt, how many masters are adopted, or nothing
-- The answer: the record, or ''; this server's time in µs, as text; why the record that was there does not hold, '' if
-- it does; this process' run_id. The reasons are absent (there is no record), restart (another run_id), database,
-- evicted (another number of evictions), stale (it is the one that the caller knows), and clock (it is from the future).
--
-- A record: the run_id of the process that wrote it; when, in µs; the database; the largest MaxTTL that a client
-- has declared, in ms; how many keys the process had evicted; the word adopted, if it was, and with how many masters. '-' stands for what its
-- writer did not know.
local key, database, what, stale, declared, masters = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

-- Returns what INFO says, or '-'.
local function tells(section, pattern)
  local info = redis.pcall('INFO', section)
  return type(info) == 'string' and string.match(info, pattern) or '-'
end

local run = tells('server', 'run_id:(%x+)')
local evicted = tells('stats', 'evicted_keys:(%d+)')
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Returns the fields of a record, or nothing if it is none. No client declares more than a week. Text that
-- clients cannot parse must not pass as a record here: it would never be replaced.
local function parse(record)
  if #record > 128 then
    return
  end
  local of, since, at, more = string.match(record, '^([%x%-]+) (%d+) ([%d%-]+)(.*)$')
  if not of or #since > 16 then
    return
  end
  local adopted = string.match(more, ' adopted$') or string.match(more, ' adopted [1-9]%d?$') or ''
  more = string.sub(more, 1, -1 - #adopted)
  local ttl, count = string.match(more, '^ (%d+) ([%d%-]+)$')
  if not ttl or #ttl > 9 or tonumber(ttl) > 604800000 then
    return
  end
  if count ~= '-' and (#count > 20 or not string.match(count, '^%d+$')) then
    return
  end
  return of, since, at, tonumber(ttl), adopted, count
end

-- Returns why a record does not hold, or ''. What the caller does not know contradicts nothing. A database of
-- '-' in the record contradicts only callers that know the run_id. Otherwise callers with different rights would
-- replace each other's records for ever.
local function judge(record)
  local of, since, at, _, _, count = parse(record)
  if not of then
    return 'absent'
  elseif run ~= '-' and of ~= run then
    return 'restart'
  elseif evicted ~= '-' and count ~= '-' and count ~= evicted then
    return 'evicted'
  elseif database ~= '-' and at ~= database and (at ~= '-' or run ~= '-') then
    return 'database'
  elseif record == stale then
    return 'stale'
  elseif tonumber(since) > now then
    return 'clock'
  end
  return ''
end

-- Sets the record's expiry, a moment in the year 2100 that depends on its text. The time to live then shows
-- that the record is there, that it is this one, and that the server's clock has not jumped.
local function expire(record)
  local moment = 4102444800000 + tonumber(string.sub(redis.sha1hex(record), 1, 8), 16)
  redis.call('PEXPIREAT', key, string.format('%.0f', moment))
end

local record = redis.pcall('GET', key)
if type(record) == 'table' then
  if string.sub(record.err, 1, 9) ~= 'WRONGTYPE' then
    return record
  end
  record = ''
end
record = record or ''

local why = judge(record)
local of, since, at, ttl, adopted, count = parse(record)
if not of then
  record = ''
end
local before = record
local started = run .. ' ' .. string.format('%.0f', now) .. ' ' .. database .. ' '
if what == 'adopt' then -- nobody holds a lock, so the MaxTTL that was declared before counts no more
  record = started .. declared .. ' ' .. evicted .. ' adopted' .. (masters and ' ' .. masters or '')
elseif what == 'keep' and why ~= '' then -- leases from before the loss may still be valid
  record = started .. math.max(ttl or 0, declared) .. ' ' .. evicted
elseif what == 'keep' and ttl < declared then
  record = of .. ' ' .. since .. ' ' .. at .. ' ' .. declared .. ' ' .. count .. adopted
end
if record ~= before then
  redis.call('SET', key, record)
end
if what ~= 'read' then
  expire(record)
end
return {record, string.format('%.0f', now), why, run}
