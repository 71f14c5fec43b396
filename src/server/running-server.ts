import { EventEmitter, once } from "node:events";
import type { Cleanup } from "../base/cleanup.ts";

/**
 * The content of `run/berth.json`, and of the line that the server prints when it is ready. `password` is the password
 * of the API, and is present only if this start has generated it.
 */
export interface ReadyInfo {
  /**
   * The bound address, as http://host:port. If Berth has its own certificate, this port accepts HTTP only from this
   * machine.
   */
  readonly api: string;
  /** The address for other machines, as https://host[:port]; absent with neither an `api_domain` nor a certificate. */
  readonly api_url?: string;
  readonly specs_dir: string;
  readonly data_dir: string;
  readonly instance: string;
  readonly pid: number;
  readonly version: string;
  readonly docker_host: string;
  readonly password?: string;
}

export interface RunningServer {
  readonly ready: ReadyInfo;
  /** Resolves when the server has ended. */
  readonly closed: Promise<void>;
  /** Ends the server and leaves the apps running. A second call has no effect. */
  close(): Promise<void>;
}

/** Returns the handle of a server whose parts have been started. */
export function createRunningServer(parts: Cleanup, ready: ReadyInfo): RunningServer {
  let closing: Promise<void> | undefined;
  const ended = new EventEmitter();
  const untilEnded = async () => void (await once(ended, "end"));
  return {
    ready,
    closed: untilEnded(),
    close: () => {
      closing ??= parts[Symbol.asyncDispose]().finally(() => ended.emit("end"));
      return closing;
    },
  };
}
