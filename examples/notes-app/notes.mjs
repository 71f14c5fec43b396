#!/usr/bin/env node
// An app whose tools the assistant can call: MCP on a Unix socket. See README.md.
import { chmod, mkdir, readFile, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import { fromJsonSchema, McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { NoteStore } from "./note-store.mjs";

// The app reads the arguments of its tools from the manifest that declares them, so that app and manifest always agree.
const manifestUrl = new URL("org.example.Notes.json", import.meta.url);
const manifest = JSON.parse(await readFile(manifestUrl, "utf8"));

const runtimeDir = process.env.XDG_RUNTIME_DIR;
if (!runtimeDir)
  fail("XDG_RUNTIME_DIR is not set: start this in a session, or set it to a folder of mode 0700");
const dataHome = process.env.XDG_DATA_HOME || join(homedir(), ".local/share");
const store = await NoteStore.open(join(dataHome, manifest.app_id, "notes.json"));

const tools = {
  create_note: (args) => store.create(args),
  list_notes: ({ limit }) => ({ notes: store.list(limit) }),
  read_note: ({ id }) => store.read(id),
  search_notes: ({ query }) => ({ notes: store.search(query) }),
  update_note: (args) => store.update(args),
  delete_note: ({ id }) => store.delete(id),
  restore_note: (args) => store.restore(args),
};

/** Creates the server of one connection. If a tool throws an error, the error's message is the tool's result. */
function newServer() {
  const server = new McpServer({ name: manifest.app_id, version: "1.0.0" });
  for (const { name, description, input_schema } of manifest.tools) {
    const inputSchema = fromJsonSchema(input_schema);
    server.registerTool(name, { description, inputSchema }, async (args) => {
      const result = await tools[name](args);
      return {
        structuredContent: result,
        content: [{ type: "text", text: JSON.stringify(result) }],
      };
    });
  }
  return server;
}

const socketsDir = join(runtimeDir, "assistant/apps");
await mkdir(socketsDir, { recursive: true, mode: 0o700 });
const path = join(socketsDir, `${manifest.app_id}.sock`);
if (await isListenedTo(path)) fail(`${manifest.app_id} is running already`);
await rm(path, { force: true }); // removes a socket file that a crash has left

const sockets = new Set();
const listener = createServer((socket) => {
  sockets.add(socket);
  socket.on("error", () => {}).once("close", () => sockets.delete(socket));
  // The transport sends lines of JSON-RPC over two streams. It serves clients of the 2026 revision of MCP and of older
  // revisions.
  serveStdio(newServer, { transport: new StdioServerTransport(socket, socket) });
});
listener.listen(path, async () => {
  await chmod(path, 0o600);
  console.error(`${manifest.app_id} listens`);
});

await takeBusName();

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    listener.close(() => process.exit(0)); // closing the listener removes its socket file
    for (const socket of sockets) socket.destroy();
  });
}

/**
 * Claims the app's bus name. The session bus stops a service that it has started if the service does not claim its
 * name.
 */
async function takeBusName() {
  const address = process.env.DBUS_STARTER_ADDRESS;
  if (!address) return;
  const { default: dbus } = await import("dbus-next");
  const bus = dbus.sessionBus({ busAddress: address });
  const end = () => process.exit(0); // the bus exits when the user's session ends
  bus.on("error", end);
  bus._connection.on("end", end); // dbus-next emits no error when the bus closes the connection
  // The timer ends the app if the bus exits or does not answer.
  const late = setTimeout(() => fail("the session bus does not answer"), 25_000);
  await bus.requestName(manifest.app_id, dbus.NameFlag.DO_NOT_QUEUE);
  clearTimeout(late);
}

function isListenedTo(socketPath) {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}
