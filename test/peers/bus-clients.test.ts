import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { which } from "../../scripts/engine.mjs";
import {
  generateAnswer,
  splitPieces,
  toToken,
} from "../../src/assistant/inference/stub/stub-text.ts";
import { CompanionProcess } from "../support/companion-process.ts";
import { findCurrentGo } from "../support/current-go.ts";
import { TestProvider } from "../support/provider/test-provider.ts";
import { installPythonBusClients } from "../support/python-tools.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

/**
 * Programs on D-Bus libraries of other languages, most of them with code that a generator makes from the introspection
 * of the companion. Each opens a session and reads its pipe, and sends a key through a pipe of its own.
 */
const fixtures = join(import.meta.dirname, "../fixtures/bus-clients");
const interfaces = join(import.meta.dirname, "../../dbus/interfaces");
const KEY = "sk-canary-of-a-foreign-client";
const ANSWER = generateAnswer(splitPieces("Say hello").map(toToken));
const objects = {
  inference: ["dev.assistant.Inference1", "/dev/assistant/Inference1"],
  remote: ["dev.assistant.Remoted", "/dev/assistant/Remote1"],
} as const;
/** The limit is high, because the first run downloads and compiles the libraries. */
const PREPARE_LIMIT_MS = 900_000;

let bus: TestSessionBus;
let companion: CompanionProcess;
let provider: TestProvider;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-bus-clients-"));
  provider = await TestProvider.start({ key: KEY });
  bus = await TestSessionBus.start();
  companion = await CompanionProcess.start({ bus });
});
afterAll(async () => {
  await companion?.[Symbol.asyncDispose]();
  await bus?.[Symbol.asyncDispose]();
  await provider?.[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

/** Runs a program with the companion's bus in the environment. If it fails, the error contains its output. */
async function run(program: string, args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, ...bus.environment };
  try {
    const options = { cwd, env, maxBuffer: 2 ** 26 };
    return (await promisify(execFile)(program, args, options)).stdout;
  } catch (error) {
    const { stdout = "", stderr = "" }: { stdout?: string; stderr?: string } = Object(error);
    throw new Error(
      `${program} ${args[0]} has failed:\n${stdout.slice(-4000)}\n${stderr.slice(-4000)}`,
      { cause: error },
    );
  }
}

const callRemote = (member: string, signature: string, ...args: readonly string[]) =>
  bus.busctlCall(...objects.remote, "dev.assistant.Remote1", member, signature, ...args);

interface ClientResult {
  /** The text that the client has read from the pipe of its session. */
  readonly text: string;
  /**
   * The models that the provider has listed to the client. The provider lists them only to a client with the key that
   * was sent through the pipe.
   */
  readonly models: unknown;
}

/** Runs a client with the id of a new provider and its key as the last arguments. */
async function useCompanion(
  id: string,
  program: string,
  ...args: readonly string[]
): Promise<ClientResult> {
  await callRemote("AddProvider", "sss", id, id, provider.baseUrl);
  const text = await run(program, [...args, id, KEY], dir);
  const [models] = await callRemote("ListModels", "s", id);
  return { text, models: JSON.parse(String(models)) };
}

const worked = (): ClientResult => ({ text: ANSWER, models: provider.models });
const folder = () => mkdtemp(join(dir, "client-"));

test(
  "a Python client with classes that jeepney has generated can use the companion",
  async () => {
    const python = join(await installPythonBusClients(), "python");
    const own = await folder();
    for (const [name, [service, path]] of Object.entries(objects)) {
      const output = join(own, `${name}.py`);
      await run(python, ["-m", "jeepney.bindgen", "-n", service, "-p", path, "-o", output], own);
    }
    // jeepney cannot introspect a session, because its object exists only while the client runs. So the generator reads
    // the interface from the XML file.
    const session = join(interfaces, "dev.assistant.Inference1.Session.xml");
    const generated = ["-n", objects.inference[0], "-f", session, "-o", join(own, "session.py")];
    await run(python, ["-m", "jeepney.bindgen", ...generated], own);
    await copyFile(join(fixtures, "with_jeepney.py"), join(own, "client.py"));
    expect(await useCompanion("jeepney", python, join(own, "client.py"))).toEqual(worked());
  },
  PREPARE_LIMIT_MS,
);

test(
  "a Python client of dbus-fast, which reads the methods by introspection, can use the companion",
  async () => {
    const python = join(await installPythonBusClients(), "python");
    expect(await useCompanion("dbus-fast", python, join(fixtures, "with_dbus_fast.py"))).toEqual(
      worked(),
    );
  },
  PREPARE_LIMIT_MS,
);

test(
  "a Go client of godbus can use the companion",
  async () => {
    const go = await findCurrentGo();
    const own = await folder();
    await run(go, ["mod", "init", "client"], own);
    await copyFile(join(fixtures, "main.go"), join(own, "main.go"));
    await run(go, ["get", "github.com/godbus/dbus/v5@v5.2.4"], own);
    await run(go, ["build", "-o", "client", "."], own);
    expect(await useCompanion("godbus", join(own, "client"))).toEqual(worked());
  },
  PREPARE_LIMIT_MS,
);

test(
  "a C client with code that gdbus-codegen has generated can use the companion",
  async () => {
    const generator = which("gdbus-codegen");
    if (!generator)
      throw new Error("this test needs gdbus-codegen: apt-get install libglib2.0-dev");
    const own = await folder();
    const names = ["Inference1", "Inference1.Session", "Remote1"];
    const files = names.map((name) => join(interfaces, `dev.assistant.${name}.xml`));
    const options = ["--generate-c-code", "berth", "--interface-prefix", "dev.assistant."];
    await run(generator, [...options, ...files], own);
    const flags = await run("pkg-config", ["--cflags", "--libs", "gio-unix-2.0"], own);
    const sources = [join(fixtures, "main.c"), "berth.c"];
    await run("cc", ["-o", "client", "-I.", ...sources, ...flags.trim().split(/\s+/)], own);
    expect(await useCompanion("glib", join(own, "client"))).toEqual(worked());
  },
  PREPARE_LIMIT_MS,
);

test(
  "a Rust client with code that zbus-xmlgen has generated can use the companion",
  async () => {
    const cargo = which("cargo");
    if (!cargo) throw new Error("this test needs Rust 1.89 or newer: install it with rustup");
    // The generator and the client share a folder of compiled crates, which is kept for the next run.
    const cache = join(import.meta.dirname, "../../node_modules/.cache/berth-rust-tools");
    await mkdir(cache, { recursive: true });
    const target = ["--target-dir", join(cache, "target")];
    const generator = ["zbus_xmlgen", "--version", "6.0.0", "--locked", "--debug", "--root", cache];
    await run(cargo, ["install", "--quiet", ...generator, ...target], dir);
    const own = await folder();
    await run(cargo, ["init", "--quiet", "--name", "client", "--vcs", "none"], own);
    await run(cargo, ["add", "--quiet", "zbus@=6.2.1"], own);
    for (const [module, name] of [
      ["inference", "Inference1"],
      ["session", "Inference1.Session"],
      ["remote", "Remote1"],
    ] as const) {
      const file = join(interfaces, `dev.assistant.${name}.xml`);
      const output = join(own, "src", `${module}.rs`);
      await run(join(cache, "bin/zbus-xmlgen"), ["file", file, "-o", output], own);
    }
    await copyFile(join(fixtures, "main.rs"), join(own, "src/main.rs"));
    await run(cargo, ["build", "--quiet", ...target], own);
    expect(await useCompanion("zbus", join(cache, "target/debug/client"))).toEqual(worked());
  },
  PREPARE_LIMIT_MS,
);
