import type { Command } from "commander";
import type { Colors } from "./colours.ts";

/** The output of `berth` without a verb: its purpose, the verbs by group, and first steps. */
export function overview(program: Command, colours: Colors): string {
  const visible = program.createHelp().visibleCommands(program);
  const width = Math.max(...visible.map((command) => command.name().length));
  const headings = [...new Set(visible.map((command) => command.helpGroup()))].filter(Boolean);
  const sections = headings.map((heading) =>
    [
      colours.bold(heading),
      ...visible
        .filter((command) => command.helpGroup() === heading)
        .map((command) => `  ${colours.cyan(command.name().padEnd(width))}  ${command.summary()}`),
    ].join("\n"),
  );
  const steps = [
    ["berth up", "start a server on this machine, in the foreground"],
    ["berth get apps", "list the apps"],
    [
      "berth apply -f hello.yaml",
      "create an app from a file, or save the file in the specs folder",
    ],
    ["berth help VERB", "show the options and examples of a verb"],
  ] as const;
  const stepWidth = Math.max(...steps.map(([line]) => line.length));
  return [
    program.description(),
    "",
    ...sections.flatMap((section) => [section, ""]),
    colours.bold("First steps:"),
    ...steps.map(([line, meaning]) => `  ${colours.cyan(line.padEnd(stepWidth))}  ${meaning}`),
  ].join("\n");
}
