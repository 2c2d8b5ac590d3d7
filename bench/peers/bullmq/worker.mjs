// A BullMQ worker process: one Worker a queue, as BullMQ's guide to rate limits and global
// concurrency describes. Usage: node worker.mjs '<job as JSON>'
import { Queue, Worker } from 'bullmq';
import { call } from './call.mjs';

const job = JSON.parse(process.argv[2]);
const connection = { host: '127.0.0.1', port: job.redis_port, maxRetriesPerRequest: null };

const workers = [];
for (const q of job.queues) {
  const queue = new Queue(q.model, { connection });
  const options = { connection, concurrency: job.concurrency };
  if (q.window_max) options.limiter = { max: q.window_max, duration: q.window_ms };
  else if (q.burst) options.limiter = { max: Math.max(1, Math.round(q.rate)), duration: 1000 };
  const worker = new Worker(q.model, async (run) => {
    const wait = await call(job.url, q.model, `${q.model} ${run.data.n}`);
    if (wait > 0) {
      await queue.rateLimit(wait);
      throw Worker.RateLimitError();
    }
  }, options);
  worker.on('error', (err) => console.error(String(err)));
  workers.push(worker);
}
process.on('SIGTERM', async () => {
  await Promise.all(workers.map((w) => w.close()));
  process.exit(0);
});
