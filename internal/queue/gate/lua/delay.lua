-- Comes between the guard and asynq's script that delays a task, and leaves its KEYS
-- unchanged. asynq has the time at which the task is due in ARGV[3], by the clock of the
-- worker; others forward it by Redis's.
--
-- ARGV[3] µs for which the task is delayed; replaced by when that is over, Unix seconds
do
  local time = redis.call("TIME")
  ARGV[3] = string.format("%d", math.ceil(time[1] + (time[2] + ARGV[3]) / 1000000))
end
