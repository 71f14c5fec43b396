import { createServer, type IncomingMessage } from "node:http";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";

/**
 * A provider that runs in its own process. It answers at once with `max_tokens` words. Each word is sent in its own
 * event and its own turn of the event loop, `pace_ms` after the previous word. The text of a word is the time at which
 * it was sent, in nanoseconds of the machine's monotonic clock.
 */
const server = createServer((request, response) => {
  void (async () => {
    const asked = JSON.parse(await textOf(request));
    const common = { id: "bench", object: "chat.completion.chunk", created: 1, model: asked.model };
    const send = (rest: object) =>
      response.write(`data: ${JSON.stringify({ ...common, ...rest })}\n\n`);
    const chunk = (delta: object, finish: string | null = null) =>
      send({ choices: [{ index: 0, delta, finish_reason: finish }] });
    response.socket?.setNoDelay(true);
    response.writeHead(200, { "content-type": "text/event-stream" });
    chunk({ role: "assistant", content: "" });
    for (let token = 0; token < asked.max_tokens; token += 1) {
      if (asked.pace_ms === undefined) await nextTurn();
      else await sleep(asked.pace_ms);
      chunk({ content: ` ${process.hrtime.bigint()}` });
    }
    chunk({}, "stop");
    const usage = { prompt_tokens: 9, completion_tokens: asked.max_tokens, total_tokens: 0 };
    send({ choices: [], usage });
    response.end("data: [DONE]\n\n");
  })();
});

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.send?.(typeof address === "object" ? `http://127.0.0.1:${address?.port}` : "");
});
process.once("disconnect", () => process.exit());
