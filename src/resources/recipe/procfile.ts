import type { StartCommand } from "./generated-dockerfile.ts";
import type { SourceReader } from "./source-reader.ts";

/** Reads the `web:` line of a Procfile, which takes precedence over any detected start command. */
export async function readProcfileStart(reader: SourceReader): Promise<StartCommand | undefined> {
  const text = (await reader.read("Procfile")) ?? "";
  const line = /^web[ \t]*:(.*)/m.exec(text)?.[1]?.trim();
  return line === undefined || line === "" ? undefined : { type: "shell", line };
}
