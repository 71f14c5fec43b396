import { mkdir, mkdtemp, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AssistantProcess } from "../assistant-process.ts";

/**
 * Starts `bin/berth assistant` with a model in its folder, which is loaded on demand: a request with `keep_alive: 0`
 * unloads it, so that the next one gets a fresh context.
 */
export async function startAssistantWith(name: string, path: string): Promise<AssistantProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-trained-"));
  await mkdir(join(dataDir, "models"));
  await symlink(path, join(dataDir, "models", `${name}.gguf`));
  return AssistantProcess.start(["--data-dir", dataDir, "--context", "512", "--parallel", "4"]);
}
