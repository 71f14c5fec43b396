#!/usr/bin/env node
// Prints a manifest with the tools that a running MCP server lists. For a server that listens on the socket of APP_ID:
//   node manifest-of.mjs APP_ID
// For a server that is started with COMMAND, and communicates on stdin and stdout:
//   node manifest-of.mjs APP_ID -- COMMAND [ARGUMENT...]
// Every tool is "destructive", and none has an undo, until the author of the manifest changes that.
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, SdkError, SdkErrorCode } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

// The time limits of the assistant for an app to listen, and to answer the first request.
const LISTEN_MS = 10_000;
const DISCOVER_MS = 3_000;

const [appId, separator, command, ...args] = process.argv.slice(2);
if (!appId || (separator !== undefined && (separator !== "--" || !command))) {
  fail("usage: node manifest-of.mjs APP_ID [-- COMMAND [ARGUMENT...]]");
}

try {
  const client = await connectClient();
  const { tools } = await client.listTools();
  const manifest = {
    svc_manifest: 1,
    app_id: appId,
    name: client.getServerVersion()?.title ?? client.getServerVersion()?.name ?? appId,
    mcp: { transport: "unix", activatable: true },
    tools: tools.map(({ name, title, description, inputSchema }) => ({
      name,
      ...(title !== undefined && { title }),
      tier: "destructive",
      description: description ?? "",
      input_schema: inputSchema,
    })),
  };
  console.log(JSON.stringify(manifest, undefined, 2));
  await client.close();
  process.exit(0);
} catch (error) {
  fail(error.message);
}

async function connectClient() {
  try {
    return await attempt({});
  } catch (error) {
    // A server of an older revision of MCP may close the connection, or not answer the first request. Like the
    // assistant, this program then sends `initialize` over a new connection.
    const isOlder =
      error instanceof SdkError &&
      [SdkErrorCode.EraNegotiationFailed, SdkErrorCode.RequestTimeout].includes(error.code);
    if (!isOlder) throw error;
    return await attempt({ prior: { kind: "legacy" } });
  }
}

async function attempt(options) {
  const client = new Client(
    { name: "manifest-of", version: "1.0.0" },
    { versionNegotiation: { mode: "auto", probe: { timeoutMs: DISCOVER_MS } } },
  );
  await client.connect(await createTransport(), options);
  return client;
}

async function createTransport() {
  if (command) return new StdioClientTransport({ command, args, env: process.env });
  const socket = await openSocket();
  // This transport class of the SDK is meant for servers, but also works for a client, because both exchange lines
  // of JSON-RPC over two streams.
  return new StdioServerTransport(socket, socket);
}

async function openSocket() {
  const runtimeDir = process.env.XDG_RUNTIME_DIR;
  if (!runtimeDir) fail("XDG_RUNTIME_DIR is not set: start this in a session");
  const path = join(runtimeDir, "assistant/apps", `${appId}.sock`);
  const deadline = Date.now() + LISTEN_MS;
  for (let isFirst = true; ; isFirst = false) {
    const socket = await tryConnect(path);
    if (socket) return socket;
    if (Date.now() > deadline) throw new Error(`${appId} does not listen: start it first`);
    if (isFirst) console.error(`${appId} does not listen yet: waiting for ${LISTEN_MS / 1000} s`);
    await sleep(100);
  }
}

function tryConnect(path) {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => resolve(socket));
    socket.on("error", () => resolve(undefined));
  });
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}
