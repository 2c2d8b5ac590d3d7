// One call to the witness, over connections that are kept open.
import { Agent, request } from 'undici';

const agent = new Agent({ connections: 512, keepAliveTimeout: 60_000 });

// call returns the number of milliseconds after which a refused call may be repeated, or 0.
export async function call(url, model, run) {
  const { statusCode, headers, body } = await request(url + '/v1/chat/completions', {
    method: 'POST',
    dispatcher: agent,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: `Which text is better? Run ${run}.` }] }),
  });
  await body.text();
  if (statusCode === 429) return Number(headers['retry-after-ms']);
  if (statusCode !== 200) throw new Error(`status ${statusCode}`);
  return 0;
}
