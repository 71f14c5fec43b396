import { readFileSync } from "node:fs";
import { join } from "node:path";
import { assistantDataDir } from "../../base/assistant-paths.ts";
import type { Environment } from "../../base/environment.ts";
import { loadConfig } from "../../config/config.ts";
import { isAlive } from "../process.ts";

export interface FindAssistantOptions {
  /** --assistant-url */
  readonly url?: string | undefined;
  /** --port */
  readonly port?: number | undefined;
  /** --data-dir: of the server, or of an assistant that was started by itself. */
  readonly dataDir?: string | undefined;
  readonly config?: string | undefined;
  readonly environment: Environment;
  readonly workingDirectory: string;
}

const PORT_STANDARD = 7777;

/**
 * Where the assistant of this machine answers: --assistant-url, --port, BERTH_ASSISTANT_URL; else where a
 * running one says that it is, in `run/assistant.json`; else the port that it would take. Whether one answers
 * shows with the first call.
 */
export function findAssistant(options: FindAssistantOptions): string {
  const { environment } = options;
  if (options.url !== undefined) return options.url;
  if (options.port !== undefined) return loopback(options.port);
  const url = environment["BERTH_ASSISTANT_URL"];
  if (url) return url;
  const { assistant } = loadConfig({
    flags: { data_dir: options.dataDir, config: options.config },
    environment,
    workingDirectory: options.workingDirectory,
  });
  const running = [
    options.dataDir,
    assistant?.dataDir,
    assistantDataDir({ environment, workingDirectory: options.workingDirectory }),
  ].flatMap((dir) => (dir === undefined ? [] : (runningAt(dir) ?? [])));
  return running[0] ?? loopback(assistant?.port || PORT_STANDARD);
}

/** Undefined where none runs on that data directory, or it cannot be read by this user. */
function runningAt(dataDir: string): string | undefined {
  try {
    const ready: unknown = JSON.parse(readFileSync(join(dataDir, "run/assistant.json"), "utf8"));
    return isReady(ready) && isAlive(ready.pid) ? ready.url : undefined;
  } catch {
    return undefined;
  }
}

function isReady(value: unknown): value is { url: string; pid: number } {
  return (
    typeof value === "object" &&
    value !== null &&
    "url" in value &&
    typeof value.url === "string" &&
    "pid" in value &&
    typeof value.pid === "number"
  );
}

function loopback(port: number): string {
  return `http://127.0.0.1:${port}`;
}
