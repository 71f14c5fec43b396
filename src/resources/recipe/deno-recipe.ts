import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  type StartCommand,
  USER,
} from "./generated-dockerfile.ts";
import { getFields, getText, isParsedFields, type ParsedFields } from "./parsed-fields.ts";
import { readProcfileStart } from "./procfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { findToolVersion } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8000;
export const DENO_FILES = ["deno.json", "deno.jsonc"];
const entryFiles = ["main", "server", "app", "index", "mod", "src/main", "src/server"].flatMap(
  (name) => [`${name}.ts`, `${name}.tsx`, `${name}.js`],
);

/** Creates the Dockerfile for Deno. Throws `invalid_request` if no start command can be derived. */
export async function createDenoDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const file = DENO_FILES.find((name) => reader.has(name));
  const config = file === undefined ? {} : parseJsonc((await reader.read(file)) ?? "");
  const tasks = getFields(config, "tasks");
  const tool = await findToolVersion(reader, ["deno"], [".deno-version", ".dvmrc"]);
  const version = /^\d+(\.\d+){0,2}/.exec(tool?.version ?? "")?.[0];
  const image = options.baseImage ?? `denoland/deno:${version ?? "2"}`;
  const entry = entryFiles.find((name) => reader.has(name));
  const decidingFiles = [file ?? entry, version === undefined ? undefined : tool?.from].filter(
    (name) => name !== undefined,
  );
  const description = `Deno ${version ?? "2"}`;
  const start = await findDenoStart(reader, tasks, entry);
  const text = formatDockerfile(description, decidingFiles, [
    `FROM ${image}`,
    // COPY comes before WORKDIR, so that the working directory itself also belongs to the user who runs the app.
    `COPY --chown=${USER} . /app`,
    "WORKDIR /app",
    "ENV DENO_DIR=/app/.deno DENO_NO_UPDATE_CHECK=1",
    `USER ${USER}`,
    // The dependencies are downloaded here, so that the app starts without a network.
    ...(file === undefined ? [] : ["RUN deno install"]),
    ...(entry === undefined ? [] : [`RUN deno cache ${entry}`]),
    ...(getTask(tasks, "build") === undefined ? [] : ["RUN deno task build"]),
    `ENV PORT=${PORT}`,
    `EXPOSE ${PORT}`,
    formatCmdInstruction(start),
  ]);
  return { description, decidingFiles, port: PORT, text };
}

async function findDenoStart(
  reader: SourceReader,
  tasks: ParsedFields,
  entry: string | undefined,
): Promise<StartCommand> {
  const named = await readProcfileStart(reader);
  if (named !== undefined) return named;
  // Deno.serve listens at this address, whatever the program says.
  const address = "DENO_SERVE_ADDRESS=tcp:0.0.0.0:$PORT";
  const start = getTask(tasks, "start");
  if (start !== undefined && !/\s--watch\b/.test(start))
    return { type: "shell", line: `${address} exec deno task start` };
  if (entry !== undefined)
    return { type: "shell", line: `${address} exec deno run --allow-all ${entry}` };
  throw undecidedSourceError(
    "no start command can be derived: deno.json has no task start, and there is no main.ts or server.ts",
    'add one, such as "tasks": { "start": "deno run --allow-all main.ts" }',
  );
}

/** Returns the command of a task, which is a text or an object with `command`. */
function getTask(tasks: ParsedFields, name: string): string | undefined {
  return getText(tasks, name) ?? getText(getFields(tasks, name), "command");
}

/** Parses JSON with comments. Returns no fields if the text is damaged, because Deno then reports it better. */
function parseJsonc(text: string): ParsedFields {
  const plain = text
    .replace(/^\u{feff}/u, "")
    .replaceAll(
      /("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
      (_, quoted?: string) => quoted ?? "",
    )
    .replaceAll(/("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])/g, (_, quoted?: string) => quoted ?? "");
  try {
    const parsed: unknown = JSON.parse(plain);
    return isParsedFields(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
