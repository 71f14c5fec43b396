import { closeSync, mkdtempSync, read, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import { InferenceObjects } from "../../src/assistant/inference/bus/inference-objects.ts";
import type { BusValue, BusVariant } from "../../src/dbus/port.ts";
import { FakeBus } from "./fake-bus.ts";
import { ScriptedService } from "./scripted-service.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const INFERENCE = "/dev/assistant/Inference1";
export const CLIENT = ":1.5";
const readFrom = promisify(read);

export type BusOptions = ReadonlyMap<string, BusVariant>;

export function options(given: Readonly<Record<string, string | number>> = {}): BusOptions {
  return new Map(
    Object.entries(given).map(([name, value]) => [
      name,
      { signature: typeof value === "number" ? "u" : "s", value },
    ]),
  );
}

/** The Inference1 objects on a fake bus without a connection, with an inference service that the test controls. */
export class InferenceBusHarness {
  readonly bus = new FakeBus();
  readonly service = new ScriptedService();
  readonly clock = new VirtualClock();
  readonly runtimeDir: string;
  readonly objects: InferenceObjects;

  constructor() {
    this.runtimeDir = mkdtempSync(join(tmpdir(), "berth-pipes-"));
    this.objects = new InferenceObjects({
      bus: this.bus,
      service: this.service,
      runtimeDir: this.runtimeDir,
      clock: this.clock,
      daemon: "berth 0.0.0-test",
    });
    onTestFinished(async () => {
      await this.objects[Symbol.asyncDispose]();
      rmSync(this.runtimeDir, { recursive: true, force: true });
    });
  }

  async open(connection = CLIENT, given: BusOptions = options()): Promise<TestSession> {
    const [path, pipe] = await this.bus.call(connection, INFERENCE, "OpenSession", given);
    if (typeof path !== "string" || typeof pipe !== "number") throw new Error("no session");
    return new TestSession(this.bus, connection, path, pipe);
  }
}

/** A client's inference session: the path of its bus object, and the read end of its pipe. */
export class TestSession {
  readonly path: string;
  /** The file descriptor that the client has received. `closeReader` closes it. */
  readonly pipe: number;
  readonly #bus: FakeBus;
  readonly #connection: string;
  #isOpen = true;

  constructor(bus: FakeBus, connection: string, path: string, pipe: number) {
    this.#bus = bus;
    this.#connection = connection;
    this.path = path;
    this.pipe = pipe;
    onTestFinished(() => this.closeReader());
  }

  call(method: string, ...args: readonly BusValue[]): Promise<readonly BusValue[]> {
    return this.#bus.call(this.#connection, this.path, method, ...args);
  }

  generate(prompt = "Hi", given: BusOptions = options()): Promise<readonly BusValue[]> {
    return this.call("Generate", prompt, given);
  }

  get state(): BusValue | undefined {
    return this.#bus.property(this.path, "State");
  }

  /** Waits for bytes as a reader of a pipe does; returns an empty buffer at EOF. */
  async readSome(bytesMax = 65_536): Promise<Buffer> {
    const { buffer, bytesRead } = await readFrom(
      this.pipe,
      Buffer.alloc(bytesMax),
      0,
      bytesMax,
      null,
    );
    return buffer.subarray(0, bytesRead);
  }

  /** Returns all data of one message, up to EOF. */
  async message(): Promise<string> {
    const parts: Buffer[] = [];
    for (;;) {
      const part = await this.readSome();
      if (part.length === 0) return Buffer.concat(parts).toString();
      parts.push(part);
    }
  }

  /** Returns the status and detail of each Finished signal, in order. */
  finished(): { status: BusValue | undefined; detail: unknown; to: string | undefined }[] {
    return this.#bus.signals
      .filter(({ path }) => path === this.path)
      .map(({ args: [status, detail], to }) => ({
        status,
        detail: typeof detail === "string" ? JSON.parse(detail) : undefined,
        to,
      }));
  }

  closeReader(): void {
    if (this.#isOpen) closeSync(this.pipe);
    this.#isOpen = false;
  }
}

export function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}
