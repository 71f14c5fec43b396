#!/usr/bin/env node
// npm run up: installs, builds, finds or starts a container engine, creates the image of the hello example, and runs
// Berth in the foreground with the specs of this folder. Arguments are passed to `berth up`:
//
//   npm run up -- --listen 127.0.0.1:8080 --data-dir /tmp/berth
//
// The variables BERTH_ENGINE_SOCKET and BERTH_ENGINE_DATA_ROOT select a separate engine at these paths, which is
// started if necessary. This script is plain Node without dependencies, because it runs before anything is installed.
import { spawn } from "node:child_process";
import path from "node:path";
import pinnedNode from "./pinned-node.cjs";

await pinnedNode.ensure();

const { ensureEngine } = await import("./up-engine.mjs");
const { ensureHelloImage } = await import("./base-image.mjs");
const { ensureBuilt, ensureInstalled, root } = await import("./install.mjs");

const args = process.argv.slice(2);

if (args.includes("--help") || args.includes("-h")) {
  ensureInstalled();
  ensureBuilt();
  run(process.env);
} else {
  try {
    const host = await ensureEngine(args);
    ensureInstalled();
    ensureBuilt();
    await ensureHelloImage(host);
    run({ ...process.env, DOCKER_HOST: host });
  } catch (error) {
    console.error(`error: ${error.message}`);
    process.exitCode = 1;
  }
}

function run(env) {
  const berth = path.join(root, "bin", "berth");
  const child = spawn(process.execPath, [berth, "up", ...args], {
    cwd: root,
    env,
    stdio: "inherit",
  });
  child.once("error", (error) => {
    console.error(`error: ${error.message}`);
    process.exitCode = 1;
  });
  pinnedNode.exitAs(child);
}
