import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const folder = join(import.meta.dirname, "../../node_modules/.cache/berth-python-tools");
const packages = [
  "schemathesis==4.32.5",
  "openapi-python-client==0.29.1",
  "requests",
  "jeepney==0.9.0",
  "dbus-fast==5.2.0",
];

/**
 * Installs the Python packages of the tests into a virtual environment, unless an earlier run has installed them.
 * Returns the folder of their programs.
 */
export async function installPythonTools(): Promise<string> {
  const run = promisify(execFile);
  const programs = join(folder, "bin");
  const mark = join(folder, `installed-${packages.join("-").replaceAll(/[^\w.-]/g, "")}`);
  if (existsSync(mark)) return programs;
  await run("python3", ["-m", "venv", folder]);
  await run(join(programs, "pip"), ["install", "--quiet", ...packages], { timeout: 240_000 });
  await writeFile(mark, "");
  return programs;
}
