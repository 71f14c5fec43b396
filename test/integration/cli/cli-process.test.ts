import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const root = join(import.meta.dirname, "../../..");
const bin = join(root, "bin/berth");
let folder: string;
const children: ChildProcess[] = [];

beforeAll(() => {
  if (!existsSync(join(root, "dist/main.js")))
    throw new Error("bin/berth is not built: npm run build (npm test does it)");
});
beforeEach(() => {
  folder = temporaryFolder("process");
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

const environment = () => ({
  PATH: process.env["PATH"] ?? "",
  HOME: folder,
  BERTH_DATA_DIR: join(folder, "data"),
  BERTH_ASSISTANT: "off",
  DOCKER_HOST: `unix://${join(folder, "no-engine.sock")}`,
});

function berth(commandLine: string[], file = bin) {
  const { status, stdout, stderr } = spawnSync(file, commandLine, {
    cwd: folder,
    encoding: "utf8",
    env: environment(),
  });
  return { code: status, output: stdout, errors: stderr };
}

describe("bin/berth", () => {
  it("exits with 0 for success, 1 for failure, 2 for usage", () => {
    expect(berth(["--version"]).code).toBe(0);
    const failed = berth(["get", "apps"]);
    expect(failed.code).toBe(1);
    expect(failed.output).toBe("");
    expect(failed.errors).toMatch(/^error: no Berth server runs.*\ntry: .*\n$/);
    expect(berth(["get", "--nonsense"]).code).toBe(2);
    expect(berth(["up", "--listen", "nowhere"]).code).toBe(2);
  });

  it("runs through symbolic links, including links to links", () => {
    symlinkSync(bin, join(folder, "one"));
    symlinkSync("one", join(folder, "two"));
    expect(berth(["--version"], join(folder, "two")).output).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it("exits with 0 if the reader of its output closes the pipe", () => {
    const { status, stderr } = spawnSync(
      "bash",
      ["-c", `"${bin}" help get | head -c 1; exit "\${PIPESTATUS[0]}"`],
      {
        encoding: "utf8",
        env: environment(),
      },
    );
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  });
});

/**
 * The flags of a `berth up` without the ingress and the assistant, because both use fixed ports of the machine, and
 * Caddy would outlive the test.
 */
const upOfItsOwn = ["up", "--listen", "127.0.0.1:0", "--ingress", "off", "--assistant", "off"];

describe("berth up", () => {
  it.each([
    [["--ingress", "caddy"], "--ingress must be auto, process, container or off"],
    [["--assistant", "maybe"], "--assistant must be on or off"],
  ])("refuses the flags %j before it starts anything", (flags, message) => {
    const { code, output, errors } = berth(["up", ...flags]);
    expect(code).toBe(2);
    expect(output).toBe("");
    expect(errors).toContain(message);
  });

  it("prints one ready line, the password once on standard error, and ends on SIGTERM", async () => {
    const child = spawn(bin, upOfItsOwn, {
      cwd: folder,
      env: environment(),
    });
    children.push(child);
    let output = "";
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    await new Promise<void>((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`it ended with ${code}: ${errors}`)));
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        if (output.includes("\n")) resolve();
      });
    });
    child.removeAllListeners("exit");
    const ready = JSON.parse(/^berth ready (\{.*\})\n$/.exec(output)?.[1] ?? "null");
    expect(ready).toMatchObject({ pid: child.pid, data_dir: join(folder, "data") });
    expect(ready.api).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(JSON.parse(readFileSync(join(folder, "data/run/berth.json"), "utf8"))).toEqual(ready);
    expect(output).not.toMatch(/password/);

    // The same user on the same machine needs no login, because the token file is readable.
    expect(berth(["get", "apps", "-o", "json"])).toMatchObject({ code: 0, errors: "" });
    const second = berth(upOfItsOwn);
    expect(second.code).toBe(1);
    expect(second.errors).toContain(`process ${child.pid}`);

    const exit = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    expect(await exit).toBe(0);
    expect(
      errors.match(/password for logins from other machines, shown only this once: \S+/g),
    ).toHaveLength(1);
  });
});
