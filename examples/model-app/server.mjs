// Answers GET /?q=... with the answer of a model. It needs no packages: Berth sets the model's address.
import { createServer } from "node:http";

const {
  PORT = "3000",
  OPENAI_BASE_URL = "http://127.0.0.1:7777/v1",
  OPENAI_API_KEY = "any",
  OPENAI_MODEL,
} = process.env;

async function answerTo(question, signal) {
  const answer = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${OPENAI_API_KEY}` },
    body: JSON.stringify({
      model: OPENAI_MODEL,
      messages: [{ role: "user", content: question }],
      max_tokens: 256,
    }),
    signal,
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message ?? `the model answered ${answer.status}`);
  return body.choices[0].message.content;
}

const server = createServer((request, response) => {
  const question = new URLSearchParams(request.url.split("?")[1]).get("q");
  const say = (status, text) => {
    response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" });
    response.end(`${text}\n`);
  };
  if (!question) return say(200, "ask me something: /?q=What+is+a+berth");
  // When the client closes its connection, the request to the model is aborted.
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  answerTo(question, gone.signal).then(
    (text) => say(200, text),
    (error) => say(502, `no answer from the model: ${error.message}`),
  );
});
server.listen(Number(PORT), () => process.stdout.write(`listening on ${PORT}\n`));

process.on("SIGTERM", () => server.close(() => process.exit(0)));
