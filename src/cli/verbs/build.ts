import { open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { BerthError } from "../../base/errors.ts";
import type { Language } from "../../resources/recipe/choose-dockerfile.ts";
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

/** What a server takes by its standards: a folder past them is not one to be built. */
const LIMITS = { bytesMax: 8 * 2 ** 30, filesMax: 1_000_000 };

/** Needs no server: a folder is built by the rules that the server follows. */
export function addBuild(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("build")
      .summary("show what a folder would be built with")
      .description(
        "Shows the Dockerfile that `berth deploy` builds a folder with: the one that is there, or the one that is generated for it. Ejecting writes the generated one into the folder, to be changed by hand.",
      )
      .argument("[dir]", "the folder", ".")
      .option(
        "--print-dockerfile",
        "print the Dockerfile; which one it is stands on standard error",
      )
      .option("--eject", "write the generated Dockerfile into the folder, where there is none")
      .option("-f, --file <path>", "the Dockerfile to use, relative to the folder")
      .addOption(
        new Option("--language <language>", "generate one for this language").choices([
          "node",
          "python",
          "go",
          "static",
        ]),
      )
      .option("--base-image <reference>", "base image of a generated Dockerfile"),
    [
      ["berth build --print-dockerfile", "how the folder that you are in would be built"],
      ["berth build ./shop --eject", "make the generated Dockerfile your own"],
    ],
  ).action(async (dir: string, flags: BuildFlags) => {
    if (flags.printDockerfile !== true && flags.eject !== true)
      throw new UsageError(
        "berth build shows Dockerfiles; images are built by the server when an app is deployed",
        `\`berth deploy ${dir}\`, or \`berth build ${dir} --print-dockerfile\``,
      );
    const folder = resolve(cli.io.workingDirectory, dir);
    const chosen = await chooseForFolder(folder, flags);
    if (chosen.type === "found") {
      if (flags.eject === true)
        throw new BerthError("conflict", `${dir} has ${chosen.path} already: nothing was written`, {
          hint: `\`berth build ${dir} --language LANGUAGE --print-dockerfile\` shows a generated one`,
        });
      cli.note(`${chosen.path} of ${dir}, as it is:`);
      return await cli.print(chosen.text);
    }
    if (flags.printDockerfile === true) {
      cli.note(`generated from ${chosen.decidingFiles.join(", ")}: ${chosen.description}`);
      await cli.print(chosen.text);
    }
    if (flags.eject !== true) return;
    await writeNewFile(join(folder, chosen.path), chosen.text, `${dir} has ${chosen.path} already`);
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
  // Ctrl-C ends the process: a look writes nothing.
  const tree = await listSource(folder, { ...LIMITS, dockerfile }, new AbortController().signal);
  return chooseDockerfile(new TreeReader(tree), {
    ...(dockerfile === undefined ? {} : { dockerfile }),
    ...(language === undefined ? {} : { language }),
    ...(baseImage === undefined ? {} : { baseImage }),
  });
}

/** Also where two of them run at once, nothing that is there is overwritten. */
async function writeNewFile(path: string, text: string, conflictMessage: string): Promise<void> {
  const file = await open(path, "wx", 0o644).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "EEXIST")
      throw new BerthError("conflict", `${conflictMessage}: nothing was written`, {
        hint: "rename it first, or change it by hand",
      });
    throw new BerthError("invalid_request", "the Dockerfile cannot be written there", {
      hint: "look at the permissions of the folder",
      cause: error,
    });
  });
  try {
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}
