// Prints the answer to a question while the model writes it. Needs no package. Usage:
//   node examples/assistant/chat.mjs "Name three rivers"
// The variable BERTH_ASSISTANT_URL contains the assistant's address. The default is http://127.0.0.1:7777.
const url = process.env.BERTH_ASSISTANT_URL ?? "http://127.0.0.1:7777";
const response = await fetch(`${url}/v1/chat/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({
    messages: [{ role: "user", content: process.argv[2] ?? "Hello!" }],
    stream: true,
  }),
});
if (!response.ok) {
  const { error } = await response.json();
  console.error(`error: ${error.message}`);
  process.exit(1);
}
let rest = "";
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
    const { error, choices } = JSON.parse(line.slice("data: ".length));
    if (error) throw new Error(error.message);
    process.stdout.write(choices[0]?.delta.content ?? "");
  }
}
process.stdout.write("\n");
