#!/usr/bin/env node
// Prints a manifest with the tools that a running MCP server lists. For a server that listens on the socket of APP_ID:
//   node manifest-of.mjs APP_ID
// For a server that is started with COMMAND, and communicates on stdin and stdout:
//   node manifest-of.mjs APP_ID -- COMMAND [ARGUMENT...]
// Every tool is "destructive", and none has an undo, until the author of the manifest changes that.
import { connect } from "node:net";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

const [appId, separator, command, ...args] = process.argv.slice(2);
if (!appId || (separator !== undefined && (separator !== "--" || !command))) {
  fail("usage: node manifest-of.mjs APP_ID [-- COMMAND [ARGUMENT...]]");
}

const client = new Client(
  { name: "manifest-of", version: "1.0.0" },
  { versionNegotiation: { mode: "auto", probe: { timeoutMs: 3_000 } } },
);
try {
  await client.connect(await transport());
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

async function transport() {
  if (command) return new StdioClientTransport({ command, args, env: process.env });
  const runtimeDir = process.env.XDG_RUNTIME_DIR;
  if (!runtimeDir) fail("XDG_RUNTIME_DIR is not set: start this in a session");
  const socket = connect(join(runtimeDir, "assistant/apps", `${appId}.sock`));
  await new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", () => reject(new Error(`${appId} does not listen: start it first`)));
  });
  // This transport class of the SDK is meant for servers, but also works for a client, because both exchange lines
  // of JSON-RPC over two streams.
  return new StdioServerTransport(socket, socket);
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(1);
}
