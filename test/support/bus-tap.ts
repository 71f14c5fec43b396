import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { TestSessionBus } from "./test-session-bus.ts";

/**
 * Records the bytes of all messages on a bus from the moment when `open` resolves. Any client with permission to
 * monitor the bus can record them.
 */
export class BusTap implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #chunks: Buffer[] = [];

  static async open(bus: TestSessionBus): Promise<BusTap> {
    const child = spawn("dbus-monitor", ["--address", bus.address, "--binary"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const tap = new BusTap(child);
    // After its first output, dbus-monitor records every message on the bus.
    await once(child.stdout, "data");
    return tap;
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.stdout?.on("data", (chunk: Buffer) => this.#chunks.push(chunk));
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, "close");
    this.#child.kill("SIGTERM");
    await ended;
  }
}
