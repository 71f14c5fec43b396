import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, parse } from "node:path";
import { bundle, programSources } from "../../scripts/build.mjs";
import { packageRoot } from "../../src/base/package-root.ts";

/**
 * Bundles the program `source`, a path from the top of the checkout, with Berth's worker threads next to it, as the
 * build does, and returns the path of the bundle. A bundle starts several times as fast as sources, which matters for
 * programs that a test starts again and again. The bundle is deleted when this process exits.
 */
export async function bundleProgram(source: string): Promise<string> {
  const parent = join(packageRoot, ".berth/test-programs");
  mkdirSync(parent, { recursive: true });
  const outdir = mkdtempSync(join(parent, "program-"));
  process.once("exit", () => rmSync(outdir, { recursive: true, force: true }));
  const workers = programSources.filter((file) => file.endsWith("-worker.ts"));
  await bundle([source, ...workers], outdir);
  return join(outdir, `${parse(source).name}.js`);
}
