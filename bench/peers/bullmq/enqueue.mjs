// Adds the jobs of every queue, and sets the queues' global concurrency.
// Usage: node enqueue.mjs '<job as JSON>'
import { Queue } from 'bullmq';

const job = JSON.parse(process.argv[2]);
const connection = { host: '127.0.0.1', port: job.redis_port };
for (const q of job.queues) {
  const queue = new Queue(q.model, { connection });
  if (q.in_flight) await queue.setGlobalConcurrency(q.in_flight);
  for (let n = 0; n < q.runs; n += 1000) {
    await queue.addBulk(Array.from({ length: Math.min(1000, q.runs - n) }, (_, i) => (
      { name: 'run', data: { n: n + i }, opts: { removeOnComplete: true } })));
  }
  await queue.close();
}
process.exit(0);
