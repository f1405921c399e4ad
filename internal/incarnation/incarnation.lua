-- Judges a master's incarnation, and keeps the record of it. KEYS[1] is the
-- record; ARGV are
--   the database that the caller has selected, or '-' if it does not know
--   what to do: keep, write a new record unless the old one holds; read, write
--       nothing; adopt, declare that nobody holds a lock here
--   a record that the caller knows to hold no longer, or ''
-- The answer is the record, empty if there is none; this server's time in µs; why the
-- record that was there does not hold: '' if it does, else absent, restart, database,
-- clock or stale; and this process' run_id.
--
-- A record is the run_id of the server's process, the time since when, in µs, and
-- the database; then, if it was adopted, that word. '-' stands for a run_id that
-- the caller may not read, and for a database.
local key, database, what, stale = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- What the caller does not know contradicts nothing, and what the record does not
-- say contradicts only one who knows the rest: else callers that may read less
-- than others, and they, would take turns in writing.
local function judge(record)
  local of, since, at, more = string.match(record, '^(%S+) (%d+) (%S+)(.*)$')
  if not of or more ~= '' and more ~= ' adopted' then
    return 'absent'
  elseif run ~= '-' and of ~= run then
    return 'restart'
  elseif database ~= '-' and at ~= database and (at ~= '-' or run ~= '-') then
    return 'database'
  elseif record == stale then
    return 'stale'
  elseif tonumber(since) > now then
    return 'clock'
  end
  return ''
end

-- The record is to live until a moment of its own in the year 2100: one integer,
-- its time to live, then says that it is there, that it is this one, and that the
-- server's clock goes as it went.
local function mark(record)
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
if what == 'adopt' or what == 'keep' and why ~= '' then
  record = run .. ' ' .. string.format('%.0f', now) .. ' ' .. database
  if what == 'adopt' then
    record = record .. ' adopted'
  end
  redis.call('SET', key, record)
end
if what ~= 'read' then
  mark(record)
end
return {record, now, why, run}
