import {
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import type { SourceReader } from "./source-reader.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8080;
export const SHELL_FILE = "start.sh";

/** Creates the Dockerfile for a source that is only started by a shell script. */
export async function createShellDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const script = await reader.read(SHELL_FILE);
  if (script === undefined) throw undecidedSourceError(`there is no ${SHELL_FILE}`, "add one");
  // Debian's image contains these two shells.
  const shell = /^#!.*\bbash\b/.test(script) ? "bash" : "sh";
  const description = `the script ${SHELL_FILE} on Debian`;
  return {
    description,
    decidingFiles: [SHELL_FILE],
    port: PORT,
    text: formatDockerfile(
      description,
      [SHELL_FILE],
      [
        `FROM ${options.baseImage ?? "debian:stable-slim"}`,
        `COPY --chown=${USER} . /app`,
        "WORKDIR /app",
        `ENV PORT=${PORT}`,
        `EXPOSE ${PORT}`,
        `USER ${USER}`,
        `CMD ["${shell}", "${SHELL_FILE}"]`,
      ],
    ),
  };
}
