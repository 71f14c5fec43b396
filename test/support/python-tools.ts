import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const cache = join(import.meta.dirname, "../../node_modules/.cache");

/** Installs Schemathesis and openapi-python-client. Returns the folder of their programs. */
export function installPythonTools(): Promise<string> {
  const packages = ["schemathesis==4.32.5", "openapi-python-client==0.29.1", "requests"];
  return installPackages("berth-python-tools", packages);
}

/** Installs D-Bus clients. Returns the folder of the interpreter. */
export function installPythonBusClients(): Promise<string> {
  return installPackages("berth-python-bus", ["jeepney==0.9.0", "dbus-fast==5.2.0"]);
}

/** Installs the official Python SDK of MCP. Returns the folder of the interpreter. */
export function installPythonMcp(): Promise<string> {
  return installPackages("berth-python-mcp", ["mcp==2.3.0"]);
}

/** Installs Jinja2, with which transformers renders chat templates. Returns the folder of the interpreter. */
export function installJinja2(): Promise<string> {
  return installPackages("berth-python-jinja2", ["jinja2==3.1.6"]);
}

/**
 * Installs packages into a virtual environment of this name, unless an earlier run has installed them. Test files that
 * run concurrently need environments of their own.
 */
async function installPackages(name: string, packages: readonly string[]): Promise<string> {
  const folder = join(cache, name);
  const run = promisify(execFile);
  const programs = join(folder, "bin");
  const mark = join(folder, `installed-${packages.join("-").replaceAll(/[^\w.-]/g, "")}`);
  if (existsSync(mark)) return programs;
  await run("python3", ["-m", "venv", folder]);
  await run(join(programs, "pip"), ["install", "--quiet", ...packages], { timeout: 240_000 });
  await writeFile(mark, "");
  return programs;
}
