import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { waitForExit } from "../support/pinned-node-harness.ts";

const scripts = pathToFileURL(join(import.meta.dirname, "../../scripts/")).href;
/** A folder whose bin/ is the whole PATH, so that the Caddy and busybox of this machine are not found. */
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-up-caddy-"));
  await mkdir(join(folder, "bin"));
  for (const name of ["sh", "cat", "chmod"])
    await symlink(`/bin/${name}`, join(folder, "bin", name));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test("the installer installs an engine and Caddy in one run of apt-get", async () => {
  await writeFakeAptGet({ hasCaddy: true });

  const { stderr } = await install(["docker.io"]);

  expect(runs()).toEqual([
    "-o DPkg::Lock::Timeout=300 install -y --no-install-recommends docker.io caddy busybox-static",
  ]);
  expect(stderr).toBe("berth: installing docker.io, caddy, busybox-static\n");
});

test("the installer installs only Caddy if an engine answers, and nothing if Caddy exists too or the ingress does not need it", async () => {
  await writeFakeAptGet({ hasCaddy: true });

  await install([], ["--ingress=off"]);
  await install([], ["--ingress", "container"]);
  await install([], [], { BERTH_INGRESS: "off" });
  expect(runs()).toEqual([]);

  await install([]);
  expect(runs()).toHaveLength(1);
  await install([]);
  expect(runs()).toHaveLength(1);
});

test("on a Debian release without Caddy, the installer installs only the engine, and prints what does not work without Caddy", async () => {
  await writeFakeAptGet({ hasCaddy: false });

  const { code, stderr } = await install(["docker.io"]);

  expect(code).toBe(0);
  expect(runs().at(-1)).toMatch(/ install .* docker\.io$/);
  expect(stderr).toContain("without Caddy apps get loopback ports");
  expect(stderr).toContain("caddyserver.com");
});

/** Writes a fake apt-get that records its arguments. The fake can install Caddy only if `hasCaddy` is true. */
async function writeFakeAptGet({ hasCaddy }: { readonly hasCaddy: boolean }): Promise<void> {
  const caddy = join(folder, "bin/caddy");
  const installs = hasCaddy ? `echo > ${caddy}; chmod +x ${caddy}` : "exit 100";
  const text = `#!/bin/sh
echo "$@" >> ${folder}/runs
case "$*" in *caddy*) ${installs};; esac
`;
  await writeFile(join(folder, "bin/apt-get"), text, { mode: 0o755 });
}

function runs(): string[] {
  const file = join(folder, "runs");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
}

function install(
  packages: readonly string[],
  args: readonly string[] = [],
  environment: Readonly<Record<string, string>> = {},
) {
  const code = `
    const { installWithCaddy } = await import("${scripts}up-caddy.mjs");
    await installWithCaddy(${JSON.stringify(packages)}, ${JSON.stringify(args)});
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    env: { PATH: join(folder, "bin"), ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return waitForExit(child);
}
