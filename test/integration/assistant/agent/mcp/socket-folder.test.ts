import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openSocket } from "../../../../../src/assistant/agent/mcp/open-socket.ts";
import { SocketFolder } from "../../../../../src/assistant/agent/mcp/socket-folder.ts";
import { temporaryFolder } from "../../../../support/temporary-folder.ts";

const APP = "org.example.A";
const { signal } = new AbortController();

let root: string;
let listeners: Server[];

beforeEach(() => {
  root = temporaryFolder("sockets");
  listeners = [];
});
afterEach(() => {
  for (const listener of listeners) listener.close();
});

/** Creates a folder with a socket, on which an app sends `answer` to each client. */
async function createFolder(name: string, answer: string): Promise<string> {
  const folder = join(root, name);
  mkdirSync(folder, { mode: 0o700 });
  const listener = createServer((socket) => socket.end(answer));
  listeners.push(listener);
  await new Promise<void>((resolve) => {
    listener.listen(join(folder, `${APP}.sock`), resolve);
  });
  return folder;
}

it("the MCP adapter connects to a socket in the folder that it has checked, even if another folder takes its place meanwhile", async () => {
  const path = await createFolder("apps", "own app");
  const other = await createFolder("other", "foreign app");
  const folder = new SocketFolder(path, {
    openSocket: (socketPath, abort) => {
      renameSync(path, join(root, "moved"));
      symlinkSync(other, path);
      return openSocket(socketPath, abort);
    },
  });
  const { socket } = await folder.connect(APP, signal);
  if (!socket) throw new Error("no process listens");
  expect(await text(socket)).toBe("own app");
});

it("the MCP adapter reports a folder and a socket that do not exist", async () => {
  const missing = { isThere: false, socket: undefined };
  expect(await new SocketFolder(join(root, "none")).connect(APP, signal)).toEqual(missing);
  const path = await createFolder("apps", "");
  expect(await new SocketFolder(path).connect("org.example.B", signal)).toEqual(missing);
});

it("the MCP adapter refuses the socket folder of another user", async () => {
  const path = await createFolder("apps", "");
  const userId = (process.getuid?.() ?? 0) + 1;
  await expect(new SocketFolder(path, { userId }).connect(APP, signal)).rejects.toMatchObject({
    code: "app_unavailable",
    message: expect.stringContaining("not a folder of this user"),
  });
});
