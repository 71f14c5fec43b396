import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import Docker from "dockerode";
import OpenAI from "openai";
import { ApiError } from "../../src/client/rest/api-error.ts";
import type { ModelSpec } from "../../src/resources/model-spec.ts";
import type { ModelDetails, ModelView } from "../../src/resources/wire/models.ts";
import { BerthProcess } from "./berth-process.ts";
import { getModelFile, type ModelOptions, type Preset } from "./gguf/preset-model.ts";
import { Hub } from "./hub/hub.ts";
import { descendantsOf, isProcessAlive } from "./processes.ts";

export interface ModelE2eHarnessOptions {
  /** If true (the default), the real assistant runs with the real engine, on a free port. */
  readonly assistant?: boolean;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Spec files that exist before the first start. */
  readonly specs?: Readonly<Record<string, string>>;
  /**
   * A hub that is used instead of a new one, such as a hub that already has repositories. The harness closes it in the
   * end.
   */
  readonly hub?: Hub;
  /** If false, `open` does not start Berth, and the test starts it later. */
  readonly start?: boolean;
  /** The function `onTestFailed` of the test's context. Concurrent tests must set this option. */
  readonly onTestFailed?: (listener: () => void) => void;
}

/** `berth up` with its assistant and a hub with models, but without a container engine. */
export class ModelE2eHarness implements AsyncDisposable {
  readonly hub: Hub;
  readonly berth: BerthProcess;

  static async open(options: ModelE2eHarnessOptions = {}): Promise<ModelE2eHarness> {
    const hub = options.hub ?? (await Hub.open());
    try {
      const berth = await BerthProcess.open({
        dockerHost: (root) => `unix://${join(root, "no-engine.sock")}`,
        docker: new Docker({ socketPath: "/nowhere/docker.sock" }),
        assistant: options.assistant ?? true,
        // The engine uses one thread, because tests share the cores and one thread too many slows it down a
        // hundredfold.
        env: { HF_ENDPOINT: hub.url, BERTH_ASSISTANT_THREADS: "1", ...options.env },
        ...(options.flags && { flags: options.flags }),
        ...(options.specs && { specs: options.specs }),
        ...(options.start === false && { start: false }),
        ...(options.onTestFailed && { onTestFailed: options.onTestFailed }),
      });
      return new ModelE2eHarness(hub, berth);
    } catch (error) {
      await hub[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(hub: Hub, berth: BerthProcess) {
    this.hub = hub;
    this.berth = berth;
  }

  get models() {
    return this.berth.client.models;
  }

  /** Sends a request to the REST API: `call("POST", "/api/llm/stop")`. */
  async call(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; body: unknown }> {
    const token = await readFile(join(this.berth.dataDir, "run/token"), "utf8");
    const answer = await fetch(this.berth.ready.api + path, {
      method,
      headers: {
        authorization: `Bearer ${token.trim()}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: await answer.json() };
  }

  get modelsDir(): string {
    return join(this.berth.dataDir, "models");
  }

  /** The folder that contains the model files, which are named by their digests. */
  get blobsDir(): string {
    return join(this.modelsDir, "blobs");
  }

  /** Returns the model as soon as `is` is true for it. */
  waitForModel(
    name: string,
    what: string,
    is: (model: ModelDetails) => boolean,
    limitMs?: number,
  ): Promise<ModelDetails> {
    let seen: ModelDetails | undefined;
    return this.berth.until(
      what,
      async () => {
        seen = await this.models.get(name);
        return is(seen) ? seen : undefined;
      },
      limitMs,
      () => JSON.stringify(seen),
    );
  }

  /** Returns the model as soon as its newest generation has this status. */
  waitForModelStatus(
    name: string,
    status: ModelView["status"],
    limitMs?: number,
  ): Promise<ModelDetails> {
    return this.waitForModel(
      name,
      `${name} is ${status}`,
      (model) => model.status === status && model.generation === model.observed_generation,
      limitMs,
    );
  }

  async waitUntilModelGone(name: string): Promise<void> {
    await this.berth.until(`model ${name} is gone`, async () => {
      try {
        await this.models.get(name);
        return false;
      } catch (error) {
        return error instanceof ApiError && error.status === 404;
      }
    });
  }

  /** Returns the reasons of the model's events, oldest first. */
  async reasons(name: string): Promise<string[]> {
    const { events } = await this.berth.client.events.list({ kind: "Model", name, limit: 500 });
    return events.map(({ reason }) => reason).toReversed();
  }

  /** Returns the URL http://127.0.0.1:PORT of the assistant once it runs. */
  async assistantUrl(): Promise<string> {
    return this.berth.until("the assistant is up", async () => {
      const { assistant } = await this.berth.client.system.info();
      return assistant.url ?? undefined;
    });
  }

  /** Returns OpenAI's own client, without retries. */
  async openai(): Promise<OpenAI> {
    const baseURL = `${await this.assistantUrl()}/v1`;
    return new OpenAI({ baseURL, apiKey: "any", maxRetries: 0, timeout: 30_000 });
  }

  /** Returns the model's answer to a fixed prompt. At temperature 0, the answer depends only on the model's file. */
  async say(model: string): Promise<string> {
    const openai = await this.openai();
    const answer = await openai.chat.completions.create({
      model,
      messages: [{ role: "user", content: "hello" }],
      max_tokens: 4,
      temperature: 0,
    });
    return answer.choices[0]?.message.content ?? "";
  }

  /**
   * Returns the names and states of the models that the assistant lists. `url` is needed if Berth does not report
   * the assistant's URL.
   */
  async served(url?: string): Promise<Readonly<Record<string, string>>> {
    const answer = await fetch(`${url ?? (await this.assistantUrl())}/v1/models`);
    // The fields are not validated; a test that reads a missing field fails.
    const { data }: { data: { id: string; state: string }[] } = JSON.parse(await answer.text());
    return Object.fromEntries(data.map(({ id, state }) => [id, state]));
  }

  async assistantPid(): Promise<number> {
    return this.berth.until("the assistant runs", () => this.berth.assistantPid());
  }

  /** Kills the assistant; resolves when it and its engine processes have exited. Returns its process id. */
  async killAssistant(): Promise<number> {
    const pid = await this.assistantPid();
    const family = [pid, ...(await descendantsOf(pid))];
    process.kill(pid, "SIGKILL");
    await this.berth.until("the assistant and its processes are gone", () =>
      family.every((member) => !isProcessAlive(member)),
    );
    return pid;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.berth[Symbol.asyncDispose]();
    await this.hub[Symbol.asyncDispose]();
  }
}

/** Returns a spec file with one Model; the text is JSON, which is also valid YAML. */
export function modelSpecFile(name: string, spec: ModelSpec): string {
  const manifest = { apiVersion: "berth.dev/v1", kind: "Model", metadata: { name }, spec };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

export interface TestFile {
  readonly path: string;
  readonly bytes: Buffer;
  readonly sha256: string;
}

/** Generates a GGUF file, and returns it with its digest and size, which tests compare. */
export async function ggufFile(preset: Preset, options: ModelOptions = {}): Promise<TestFile> {
  const path = await getModelFile(preset, options);
  const bytes = await readFile(path);
  return { path, bytes, sha256: createHash("sha256").update(bytes).digest("hex") };
}

/** Waits until `is` returns true. The wait itself sends no request to Berth. */
export async function eventually(
  what: string,
  is: () => boolean | Promise<boolean>,
  limitMs = 60_000,
): Promise<void> {
  const deadline = Date.now() + limitMs;
  while (!(await is())) {
    if (Date.now() > deadline) throw new Error(`waited ${limitMs / 1000} s until ${what}`);
    await pause(2);
  }
}
