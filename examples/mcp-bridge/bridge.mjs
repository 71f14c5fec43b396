#!/usr/bin/env node
// Makes an MCP server that communicates on stdin and stdout available on a socket in the assistant's folder of apps.
// Usage:
//   node bridge.mjs APP_ID -- COMMAND [ARGUMENT...]
// For each connection, the bridge starts COMMAND, and stops it when the connection closes. See README.md.
import { spawn } from "node:child_process";
import { chmod, mkdir, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";

/** The maximum number of connections. The assistant opens one; further connections are for debugging. */
const CONNECTIONS_MAX = 4;
/**
 * The pause between closing stdin and sending SIGTERM, and between SIGTERM and SIGKILL. The specification of MCP
 * recommends this order.
 */
const GRACE_MS = 2_000;

const [appId, separator, command, ...args] = process.argv.slice(2);
if (!appId || separator !== "--" || !command) {
  fail("usage: node bridge.mjs APP_ID -- COMMAND [ARGUMENT...]");
}
if (!/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+$/.test(appId)) {
  fail(`${appId} is no app id: write it as org.example.Name`);
}
const runtimeDir = process.env.XDG_RUNTIME_DIR;
if (!runtimeDir)
  fail("XDG_RUNTIME_DIR is not set: start this in a session, or set it to a folder of mode 0700");

const socketsDir = join(runtimeDir, "assistant/apps");
await mkdir(socketsDir, { recursive: true, mode: 0o700 });
const path = join(socketsDir, `${appId}.sock`);
if (await isListenedTo(path)) fail(`${appId} is running already`);
await rm(path, { force: true }); // removes a socket file that a crash has left

const children = new Set();
const listener = createServer((socket) => {
  socket.on("error", () => {});
  // Both sides exchange lines of JSON-RPC, so the bridge can forward the bytes unchanged.
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  children.add(child);
  child.once("error", (error) => {
    console.error(`error: ${command} could not be started: ${error.message}`);
    children.delete(child);
    socket.destroy();
  });
  child.once("exit", () => children.delete(child));
  child.stdin.on("error", () => {});
  socket.pipe(child.stdin);
  child.stdout.pipe(socket);
  socket.once("close", () => end(child));
});
listener.maxConnections = CONNECTIONS_MAX;
listener.listen(path, async () => {
  await chmod(path, 0o600);
  console.error(`${appId} listens`);
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    listener.close(); // closing the listener removes its socket file
    await Promise.all([...children].map(end));
    process.exit(0);
  });
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.stdin.end();
  const timers = [
    setTimeout(() => child.kill("SIGTERM"), GRACE_MS),
    setTimeout(() => child.kill("SIGKILL"), 2 * GRACE_MS),
  ];
  await ended;
  for (const timer of timers) clearTimeout(timer);
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
