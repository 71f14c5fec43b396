import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { BerthError } from "../../src/base/errors.ts";
import { chooseDockerfile } from "../../src/resources/recipe/choose-dockerfile.ts";
import { listSource } from "../../src/source-tree/list-source.ts";
import { TreeReader } from "../../src/source-tree/tree-reader.ts";
import { DIFFERENT, EXAMPLE_FOLDERS } from "../support/example-folders.ts";

/**
 * The example folders of Railpack, if the environment variable BERTH_CORPORA names a folder that contains the
 * repository as `railpack`. No file of them is part of Berth; folders of the same shapes are in the unit tests.
 */
const examples = join(process.env["BERTH_CORPORA"] ?? "", "railpack/examples");
const isThere = process.env["BERTH_CORPORA"] !== undefined && existsSync(examples);

describe("the example folders of Railpack", () => {
  it("are known one by one, and at least nine of ten become what their authors expect", async () => {
    if (!isThere) {
      process.stdout.write(
        "not run: the example folders of Railpack, because BERTH_CORPORA names no folder that contains them\n",
      );
      expect(EXAMPLE_FOLDERS.size).toBe(125);
      return;
    }
    const seen = new Map<string, string>();
    for (const name of readdirSync(examples)) seen.set(name, await describeFolder(name));
    expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(EXAMPLE_FOLDERS));
    const refused = [...seen].filter(([, result]) => result.startsWith("refused: "));
    const right = seen.size - refused.length - DIFFERENT.size;
    process.stdout.write(
      `${right} of ${seen.size} right, ${refused.length} refused with what was seen, ${DIFFERENT.size} different\n`,
    );
    expect(right / seen.size).toBeGreaterThan(0.9);
  });
});

async function describeFolder(name: string): Promise<string> {
  const limits = { bytesMax: 1e9, filesMax: 1e6 };
  try {
    const tree = await listSource(join(examples, name), limits, new AbortController().signal);
    const chosen = await chooseDockerfile(new TreeReader(tree), {});
    if (chosen.type === "found") return `its own ${chosen.path}`;
    return `${chosen.description} | ${describeCommand(chosen.text)}`;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    return `refused: ${error.message.replace(/^Berth cannot detect how to build this source: /, "")}`;
  }
}

/** Returns the start command, without the options that every program of Java gets. */
function describeCommand(dockerfile: string): string {
  const words: unknown = JSON.parse(/^CMD (.*)$/m.exec(dockerfile)?.[1] ?? "[]");
  if (!Array.isArray(words)) return "";
  const line = words[0] === "/bin/sh" ? String(words[2]) : words.join(" ");
  return line.startsWith("caddy run")
    ? "pages"
    : line.replace(
        "-Dserver.port=$PORT -Dquarkus.http.port=$PORT -Dmicronaut.server.port=$PORT",
        "PORT_OPTIONS",
      );
}
