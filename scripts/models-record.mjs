#!/usr/bin/env node
// npm run models:record: builds llama-server from the sources that node-llama-cpp brings, and records its answers for
// the tests with trained models in test/fixtures/trained-models. Needs git, cmake and a C++ compiler, and takes about
// ten minutes the first time. The folder of the build can be given: npm run models:record -- DIR.
import os from "node:os";
import path from "node:path";
import pinnedNode from "./pinned-node.cjs";

await pinnedNode.ensure();

const { ensureInstalled } = await import("./install.mjs");

try {
  ensureInstalled();
  const { register } = await import("tsx/esm/api");
  register();
  const { record } = await import("../test/support/trained-models/record.ts");
  const dir = path.resolve(process.argv[2] ?? path.join(os.tmpdir(), "berth-llama-server"));
  await record(dir, (line) => console.error(`berth: ${line}`));
} catch (error) {
  console.error(`error: ${error.message}`);
  if (error.hint) console.error(`try:   ${error.hint}`);
  process.exitCode = 1;
}
