import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BerthProcess } from "../support/berth-process.ts";
import { findCurrentGo } from "../support/current-go.ts";
import { WEB } from "../support/images.ts";
import { rawTar } from "../support/raw-tar.ts";

/** Tests of clients that well-known generators make from the OpenAPI document, against a server with a real engine. */

/** Runs a program to its end. If it fails, the error contains its output. */
async function run(program: string, args: readonly string[], cwd: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { cwd, maxBuffer: 2 ** 26 });
    return stdout;
  } catch (error) {
    const { stdout = "", stderr = "" }: { stdout?: string; stderr?: string } = Object(error);
    throw new Error(
      `${program} ${args[0]} has failed:\n${stdout.slice(-4000)}\n${stderr.slice(-4000)}`,
      { cause: error },
    );
  }
}

const fixtures = join(import.meta.dirname, "../fixtures/clients");
const steps = ["created", "event", "log", "deployed", "build", "deleted"];
/** The limit is high, because the first run downloads and compiles the packages of several generators. */
const PREPARE_LIMIT_MS = 900_000;
let berth: BerthProcess;
let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-clients-"));
  berth = await BerthProcess.open({ onTestFailed: () => {} });
  const document = await fetch(`${berth.ready.api}/api/openapi.json`);
  await writeFile(join(dir, "openapi.json"), await document.text());
  const dockerfile = { name: "Dockerfile", content: `FROM ${WEB}\n` };
  await writeFile(join(dir, "source.tar.gz"), gzipSync(rawTar([dockerfile])));
});
afterAll(async () => {
  await berth?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

async function programArguments(): Promise<string[]> {
  const token = await readFile(join(berth.dataDir, "run/token"), "utf8");
  return [berth.ready.api, token.trim(), WEB, join(dir, "source.tar.gz")];
}

test(
  "a Go client of oapi-codegen creates, deploys, follows and deletes an app",
  async () => {
    const go = await findCurrentGo();
    const folder = await mkdtemp(join(dir, "go-"));
    const runGo = (...args: string[]) => run(go, args, folder);
    await runGo("mod", "init", "client");
    await mkdir(join(folder, "berth"));
    const generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2";
    const options = ["-generate", "types,client", "-package", "berth", "-o", "berth/berth.gen.go"];
    await runGo("run", generator, ...options, join(dir, "openapi.json"));
    await copyFile(join(fixtures, "main.go"), join(folder, "main.go"));
    await runGo("get", "github.com/oapi-codegen/runtime@v1.9.0");
    const output = await runGo("run", ".", ...(await programArguments()));
    expect(output.trim().split("\n")).toEqual(steps.toSpliced(4, 0, "builds"));
  },
  PREPARE_LIMIT_MS,
);

test(
  "a TypeScript client of openapi-typescript creates, deploys, follows and deletes an app",
  async () => {
    const folder = await mkdtemp(join(dir, "ts-"));
    const runIn = (program: string, ...args: string[]) => run(program, args, folder);
    await writeFile(join(folder, "package.json"), '{"type":"module","private":true}');
    const packages = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"];
    await runIn("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages);
    const bin = join(folder, "node_modules/.bin");
    await runIn(join(bin, "openapi-typescript"), join(dir, "openapi.json"), "-o", "berth.d.ts");
    await copyFile(join(fixtures, "main.mts.txt"), join(folder, "main.mts"));
    const types = join(import.meta.dirname, "../../node_modules/@types");
    await writeFile(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        compilerOptions: {
          strict: true,
          target: "es2022",
          module: "nodenext",
          skipLibCheck: true,
          typeRoots: [types],
          types: ["node"],
        },
        files: ["main.mts"],
      }),
    );
    // The compiler checks main.mts against the types that were generated from the OpenAPI document.
    await runIn(join(bin, "tsc"), "-p", ".");
    const output = await runIn(process.execPath, "main.mjs", ...(await programArguments()));
    expect(output.trim().split("\n")).toEqual(steps);
  },
  PREPARE_LIMIT_MS,
);

test(
  "redocly lint finds no error and no warning in the OpenAPI document",
  async () => {
    const folder = await mkdtemp(join(dir, "lint-"));
    const runIn = (program: string, ...args: string[]) => run(program, args, folder);
    await writeFile(join(folder, "package.json"), '{"private":true}');
    const packages = ["@redocly/cli@2.77.0"];
    await runIn("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages);
    const redocly = join(folder, "node_modules/.bin/redocly");
    const output = await runIn(redocly, "lint", join(dir, "openapi.json"), "--format", "json");
    expect(JSON.parse(output)).toMatchObject({ totals: { errors: 0, warnings: 0 } });
  },
  PREPARE_LIMIT_MS,
);
