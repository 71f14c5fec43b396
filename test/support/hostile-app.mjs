// An app that listens on the socket SOCKET and misbehaves as BEHAVIOUR says. Its arguments are SOCKET and BEHAVIOUR. It
// prints `listens` when it listens. It runs in a separate process, so that its work takes no CPU time of the test.
import { createServer } from "node:net";
import { createInterface } from "node:readline";

const [path, behaviour] = process.argv.slice(2);
const MIB = 1024 * 1024;
const tool = (properties) => ({ name: "act", inputSchema: { type: "object", properties } });

/**
 * The reactions to a tool call, by the behaviour that the command line selects. `answer` sends the result of the call.
 */
const behaviours = {
  hangs: () => {},
  dies: () => process.exit(1),
  late: (_, { answer }) => void setTimeout(() => answer({ content: [] }), 1_000),
  endless: (_, { socket }) => {
    const piece = Buffer.alloc(MIB, "x");
    let written = 0;
    writeWhile(socket, () => {
      written += 1;
      return written <= 50 ? piece : undefined;
    });
  },
  large: (_, { answer }) => answer({ content: [{ type: "text", text: "x".repeat(4 * MIB) }] }),
  zeros: (_, { answer }) => answer({ content: Array.from({ length: 1_500_000 }, () => 0) }),
  deep: ({ id }, { socket }) => {
    const nested = `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}`;
    socket.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${nested}}\n`);
  },
  floods: (_, { socket }) => {
    const line = `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" })}\n`;
    const lines = line.repeat(10_000);
    writeWhile(socket, () => lines);
  },
};

/** Writes pieces as fast as the peer reads them, until `next` returns no piece. */
function writeWhile(socket, next) {
  for (let piece = next(); piece && !socket.destroyed; piece = next()) {
    if (socket.write(piece)) continue;
    socket.once("drain", () => writeWhile(socket, next));
    break;
  }
}

let lists = 0;
function onMessage(message, peer) {
  const { method, id } = message;
  if (behaviour === "silent") return;
  if (method === "initialize") {
    const serverInfo = { name: "hostile", version: "1" };
    const capabilities = { tools: { listChanged: true } };
    peer.answer({ protocolVersion: "2025-06-18", capabilities, serverInfo });
  } else if (method === "tools/list") {
    lists += 1;
    // With the behaviour `changes`, each answer to tools/list declares the tool with another input schema.
    peer.answer({ tools: [tool(behaviour === "changes" ? { [`p${lists}`]: {} } : {})] });
    if (behaviour === "changes") peer.send({ method: "notifications/tools/list_changed" });
  } else if (method === "tools/call") (behaviours[behaviour] ?? behaviours.hangs)(message, peer);
  else if (id !== undefined && method) peer.send({ id, error: { code: -32_601, message: "no" } });
}

const server = createServer((socket) => {
  socket.on("error", () => {});
  const send = (message) => socket.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  createInterface({ input: socket })
    .on("error", () => {})
    .on("line", (line) => {
      const message = JSON.parse(line);
      onMessage(message, { socket, send, answer: (result) => send({ id: message.id, result }) });
    });
});
server.listen(path, () => process.stdout.write("listens\n"));
