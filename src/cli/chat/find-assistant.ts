import { readFileSync } from "node:fs";
import { join } from "node:path";
import { resolveAssistantDataDir } from "../../base/assistant-paths.ts";
import type { Environment } from "../../base/process-environment.ts";
import { isProcessRunning } from "../../base/running-process.ts";
import { loadConfig } from "../../config/config.ts";

export interface FindAssistantOptions {
  /** The value of the flag --assistant-url. */
  readonly url?: string | undefined;
  /** The flag --port. */
  readonly port?: number | undefined;
  /**
   * The value of the flag --data-dir: the data directory of the server, or of an assistant that runs without a server.
   */
  readonly dataDir?: string | undefined;
  readonly config?: string | undefined;
  readonly environment: Environment;
  readonly workingDirectory: string;
}

const DEFAULT_PORT = 7777;

/**
 * Returns the URL of this machine's assistant: --assistant-url, --port, BERTH_ASSISTANT_URL, the URL in
 * `run/assistant.json` of a running assistant, or else the default port. The function does not check that an assistant
 * answers there.
 */
export function findAssistant(options: FindAssistantOptions): string {
  const { environment } = options;
  if (options.url !== undefined) return options.url;
  if (options.port !== undefined) return loopbackUrl(options.port);
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
    resolveAssistantDataDir({ environment, workingDirectory: options.workingDirectory }),
  ].flatMap((dir) => (dir === undefined ? [] : (readRunningUrl(dir) ?? [])));
  return running[0] ?? loopbackUrl(assistant?.port || DEFAULT_PORT);
}

/**
 * Reads the URL of the assistant that uses the data directory. Returns undefined if no assistant uses it, or if this
 * user cannot read the file with the URL.
 */
function readRunningUrl(dataDir: string): string | undefined {
  try {
    const ready: unknown = JSON.parse(readFileSync(join(dataDir, "run/assistant.json"), "utf8"));
    return isReadyFile(ready) && isProcessRunning(ready.pid) ? ready.url : undefined;
  } catch {
    return undefined;
  }
}

function isReadyFile(value: unknown): value is { url: string; pid: number } {
  return (
    typeof value === "object" &&
    value !== null &&
    "url" in value &&
    typeof value.url === "string" &&
    "pid" in value &&
    typeof value.pid === "number"
  );
}

function loopbackUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}
