import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Environment } from "../../../base/process-environment.ts";

/** The result of a command to the user's systemd. */
export type SystemctlResult =
  | { readonly kind: "done" }
  /** No systemd is installed, or no systemd runs for this user. */
  | { readonly kind: "absent"; readonly message: string }
  | { readonly kind: "failed"; readonly message: string };

const STDERR_CHARACTERS_MAX = 500;

/** Runs `systemctl --user` with these arguments. Never rejects. */
export async function runUserSystemctl(
  args: readonly string[],
  environment: Environment,
): Promise<SystemctlResult> {
  const set = Object.entries(environment).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  const child = spawn("systemctl", ["--user", "--no-ask-password", ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: Object.fromEntries(set),
  });
  let errorOutput = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errorOutput = (errorOutput + text).slice(-STDERR_CHARACTERS_MAX);
  });
  try {
    await once(child, "close");
  } catch {
    return { kind: "absent", message: "systemctl is not installed" };
  }
  if (child.exitCode === 0) return { kind: "done" };
  const message = errorOutput.trim().split("\n").at(-1) ?? "";
  const isAbsent = /Failed to connect to bus|not been booted with systemd|Host is down/i.test(
    errorOutput,
  );
  return { kind: isAbsent ? "absent" : "failed", message };
}
