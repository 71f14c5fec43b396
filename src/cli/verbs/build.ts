import { open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { BerthError, getErrorCode } from "../../base/errors.ts";
import { LANGUAGES, type Language } from "../../resources/language.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";

interface BuildFlags {
  readonly printDockerfile?: boolean;
  readonly eject?: boolean;
  readonly file?: string;
  readonly language?: Language;
  readonly baseImage?: string;
}

/** The limits for the size and the number of files of the folder whose Dockerfile is shown. */
const LIMITS = { bytesMax: 8 * 2 ** 30, filesMax: 1_000_000 };

/**
 * Adds the verb `build`. The verb needs no server, because the command line applies the server's rules to the folder.
 */
export function addBuild(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("build")
      .summary("show the Dockerfile that a folder would be built with")
      .description(
        "Shows the Dockerfile that `berth deploy` would use for a folder: its own, or the one that is generated for it. --eject writes the generated one into the folder, for you to edit.",
      )
      .argument("[dir]", "folder to build", ".")
      .option("--print-dockerfile", "print the Dockerfile, and its origin on standard error")
      .option("--eject", "write the generated Dockerfile into a folder that has none")
      .option("-f, --file <path>", "Dockerfile to use, relative to the folder")
      .addOption(
        new Option("--language <language>", "generate a Dockerfile for this language").choices(
          LANGUAGES,
        ),
      )
      .option("--base-image <reference>", "base image of a generated Dockerfile"),
    [
      ["berth build --print-dockerfile", "show how the working directory would be built"],
      ["berth build ./shop --eject", "write the generated Dockerfile into ./shop"],
    ],
  ).action(async (dir: string, flags: BuildFlags) => {
    if (flags.printDockerfile !== true && flags.eject !== true)
      throw new UsageError(
        "berth build only shows Dockerfiles; the server builds images when an app is deployed",
        `\`berth deploy ${dir}\`, or \`berth build ${dir} --print-dockerfile\``,
      );
    const folder = resolve(cli.io.workingDirectory, dir);
    const chosen = await chooseForFolder(folder, flags);
    if (chosen.type === "found") {
      if (flags.eject === true)
        throw new BerthError("conflict", `${dir} already has ${chosen.path}: nothing was written`, {
          hint: `\`berth build ${dir} --language LANGUAGE --print-dockerfile\` shows a generated Dockerfile`,
        });
      cli.note(`${chosen.path} of ${dir}:`);
      return await cli.print(chosen.text);
    }
    if (flags.printDockerfile === true) {
      cli.note(`generated from ${chosen.decidingFiles.join(", ")}: ${chosen.description}`);
      await cli.print(chosen.text);
    }
    if (flags.eject !== true) return;
    await writeNewFile(join(folder, chosen.path), chosen.text, `${dir} already has ${chosen.path}`);
    cli.note(`wrote ${join(dir, chosen.path)}; the app listens on PORT, by default ${chosen.port}`);
  });
}

async function chooseForFolder(folder: string, flags: BuildFlags) {
  const [{ listSource }, { TreeReader }, { chooseDockerfile }] = await Promise.all([
    import("../../source-tree/list-source.ts"),
    import("../../source-tree/tree-reader.ts"),
    import("../../resources/recipe/choose-dockerfile.ts"),
  ]);
  const { file: dockerfile, language, baseImage } = flags;
  // Listing writes nothing, so Ctrl-C may simply end the process.
  const tree = await listSource(folder, { ...LIMITS, dockerfile }, new AbortController().signal);
  return chooseDockerfile(new TreeReader(tree), {
    ...(dockerfile === undefined ? {} : { dockerfile }),
    ...(language === undefined ? {} : { language }),
    ...(baseImage === undefined ? {} : { baseImage }),
  });
}

/** Writes a new file. Never overwrites an existing file, even if two processes run at once. */
async function writeNewFile(path: string, text: string, conflictMessage: string): Promise<void> {
  const file = await open(path, "wx", 0o644).catch((error: unknown) => {
    if (getErrorCode(error) === "EEXIST")
      throw new BerthError("conflict", `${conflictMessage}: nothing was written`, {
        hint: "rename the existing file first, or edit it",
      });
    throw new BerthError("invalid_request", "the Dockerfile cannot be written there", {
      hint: "check the permissions of the folder",
      cause: error,
    });
  });
  try {
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}
