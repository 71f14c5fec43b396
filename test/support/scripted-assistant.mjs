// A substitute for `berth assistant`. At each start it reads the file `mode` in its data directory, in which the
// test names its behaviour, and writes its arguments to the file `arguments`.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const given = process.argv.slice(2);
const valueOf = (flag) => {
  const joined = given.find((word) => word.startsWith(`${flag}=`));
  return joined === undefined ? given[given.indexOf(flag) + 1] : joined.slice(flag.length + 1);
};
const dataDir = valueOf("--data-dir");
const startedBy = given.includes("--started-by") ? valueOf("--started-by") : null;
const url = `http://127.0.0.1:${valueOf("--port")}`;
const mode = read("mode");
writeFileSync(join(dataDir, "arguments"), JSON.stringify({ given, secret: process.env.HF_TOKEN }));

if (mode === "port taken") {
  await tell({
    type: "failed",
    message: "port 1 of 127.0.0.1 is taken by another program",
    hint: "choose another port with --port",
  });
  process.exit(1);
}
if (mode === "exit 3") process.exit(3);

mkdirSync(join(dataDir, "run"), { recursive: true });
const socket = join(dataDir, "run/control.sock");
rmSync(socket, { force: true });
const server = createServer((_request, response) => {
  if (mode === "silent") return;
  const state = { version: "1.0.0", pid: process.pid, url, started_by: startedBy };
  response.end(mode === "nonsense" ? "?" : JSON.stringify(state));
});
server.listen(socket, () => void tell({ type: "ready", url }));
process.on("SIGTERM", () => {
  if (mode === "stubborn") return;
  writeFileSync(join(dataDir, "ended well"), "");
  process.exit(0);
});

function read(name) {
  try {
    return readFileSync(join(dataDir, name), "utf8");
  } catch {
    return "";
  }
}

function tell(message) {
  if (!process.connected) return Promise.resolve();
  return new Promise((resolve) => process.send(message, undefined, undefined, () => resolve()));
}
