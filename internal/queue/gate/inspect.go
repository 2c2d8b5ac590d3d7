package gate

import (
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// TaskInfo returns what asynq knows of a task. The error is asynq.ErrQueueNotFound or asynq.ErrTaskNotFound, or that of
// Redis. client is a redis.UniversalClient.
func TaskInfo(client redis.Cmdable, queue, id string) (*asynq.TaskInfo, error) {
	return inspector(client).GetTaskInfo(queue, id)
}

// Tasks returns a page, from 1, of a queue's tasks in a state that asynq names so, in asynq's order. The errors are those
// of TaskInfo.
func Tasks(client redis.Cmdable, queue, state string, page, size int) ([]*asynq.TaskInfo, error) {
	list := inspector(client)
	read := map[string]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		"pending": list.ListPendingTasks, "active": list.ListActiveTasks, "retry": list.ListRetryTasks,
		"scheduled": list.ListScheduledTasks, "completed": list.ListCompletedTasks, "archived": list.ListArchivedTasks,
	}[state]
	return read(queue, asynq.PageSize(size), asynq.Page(page))
}

// inspector returns asynq's inspector. The packages that show tasks do not make one: they would reach go-redis' types of
// connections through it, whose methods the compiler repeats in each package.
func inspector(client redis.Cmdable) *asynq.Inspector {
	return asynq.NewInspectorFromRedisClient(client.(redis.UniversalClient))
}
