import { chooseDockerfile } from "../../resources/recipe/choose-dockerfile.ts";
import type { SourceTree } from "../../source-tree/list-source.ts";
import { TreeReader } from "../../source-tree/tree-reader.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { parseVariables } from "../key-value-pairs.ts";
import { askLine, canPrompt } from "../prompt.ts";
import type { DeployFlags } from "./deploy-flags.ts";
import type { DeployBaseline } from "./finish-deploy.ts";

/**
 * Resolves to the port on which the app listens. The first of these that gives a port counts: --port, the existing app,
 * the Dockerfile, the user's answer. A source without a Dockerfile uses the generated one. If no port is found, the app
 * is a worker, and the result is null. Throws the errors of `chooseDockerfile` for a source that cannot be built.
 */
export async function resolvePort(
  cli: Cli,
  tree: SourceTree,
  { app }: DeployBaseline,
  flags: DeployFlags,
): Promise<number | null> {
  if (flags.port === false) return null;
  const known = flags.port ?? app?.port;
  if (known !== undefined) return known;
  const chosen = await chooseDockerfile(new TreeReader(tree), app?.spec.build ?? {});
  if (chosen.type === "generated") {
    const port = portFromVariables(flags.env) ?? chosen.port;
    if (flags.quiet !== true)
      cli.note(cli.errorColours.dim(`${chosen.description}, on port ${port}; --port sets another`));
    return port;
  }
  const exposed = parseExposedPort(chosen.text);
  if (exposed !== undefined) return exposed;
  if (canPrompt(cli)) {
    const line = await askLine(
      cli,
      `On which port does the app listen? ${chosen.path} has no EXPOSE line. Leave the answer empty for a worker, which listens on no port. `,
    );
    if (line === "") return null;
    const answer = Number(line);
    if (Number.isInteger(answer) && answer >= 1 && answer <= 65_535) return answer;
    throw new UsageError("a port is a number from 1 to 65535");
  }
  if (flags.quiet !== true)
    cli.note(
      cli.errorColours.dim(
        `${chosen.path} has no EXPOSE line, so the app has no port; --port sets one`,
      ),
    );
  return null;
}

/** Reads the port from the variable PORT, which sets the port of an app with a generated Dockerfile. */
function portFromVariables(variables: readonly string[] = []): number | undefined {
  const port = Number(parseVariables(variables)["PORT"]);
  return Number.isInteger(port) && port >= 1 && port <= 65_535 ? port : undefined;
}

/**
 * Returns the port on which an image listens: the first TCP port of the EXPOSE lines in the last stage of its
 * Dockerfile. Returns undefined if there is no such port, or if a variable sets it. Pure.
 */
export function parseExposedPort(dockerfile: string): number | undefined {
  let port: number | undefined;
  for (const line of dockerfile.replaceAll(/\\[ \t]*\r?\n/g, " ").split(/\r?\n/)) {
    // Each stage is a separate image, so EXPOSE lines of earlier stages do not count.
    if (/^\s*FROM\s/i.test(line)) port = undefined;
    const exposed = /^\s*EXPOSE\s+(.+)$/i.exec(line)?.[1];
    if (exposed === undefined) continue;
    const numbers = exposed.split(/\s+/).map((word) => /^(\d{1,5})(?:\/tcp)?$/i.exec(word)?.[1]);
    const first = numbers.map(Number).find((number) => number >= 1 && number <= 65_535);
    port ??= first;
  }
  return port;
}
