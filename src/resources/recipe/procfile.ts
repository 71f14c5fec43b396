import type { StartCommand } from "./generated-dockerfile.ts";
import type { SourceReader } from "./source-reader.ts";

/** The `web:` line of a Procfile: what a person wrote decides before what is guessed. */
export async function readProcfileStart(reader: SourceReader): Promise<StartCommand | undefined> {
  const text = (await reader.read("Procfile")) ?? "";
  const line = /^web\s*:\s*(\S.*?)\s*$/m.exec(text)?.[1];
  return line === undefined ? undefined : { type: "shell", line };
}
